"""`Finding`: one thing that is wrong, or worth knowing, with its evidence and its cure."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")

_STYLE = {"error": "bold red", "warning": "bold yellow", "note": "bold blue"}


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, or worth knowing.

    `code` is stable (`BS101`) and has a page in `docs/codes/`. `title` says what, in one sentence; `evidence` how we
    know; `cure` what to do; `source` where, as `file:line`, if that is known. `exact` is False for what is an
    inference, and then the evidence says so. `nodes` are the indices, in the graph that was looked at, of what it is
    about.
    """

    code: str
    severity: Severity
    title: str
    evidence: tuple[str, ...] = ()
    cure: str = ""
    source: str | None = None
    exact: bool = True
    nodes: tuple[int, ...] = ()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.padding import Padding
        from rich.text import Text

        head = Text.assemble(
            (f"{self.severity} ", _STYLE[self.severity]), (self.code, "dim"), "  ", (self.title, "bold")
        )
        yield head
        for line in "\n".join(self.evidence).split("\n"):
            text = line.lstrip(" ")
            yield Padding(Text(text), (0, 0, 0, 2 + len(line) - len(text)))
        if self.source:
            yield Padding(Text.assemble(("at ", "dim"), (self.source, "cyan")), (0, 0, 0, 2))
        if self.cure:
            yield Padding(Text.assemble(("cure: ", "bold green"), self.cure), (0, 0, 0, 2))

    def __str__(self) -> str:
        return plain_text(self)


def graver_or_equal(severity: Severity) -> tuple[Severity, ...]:
    """Return this severity and the graver ones, for `raise_if`.

    Raises:
        ValueError: if `severity` is not "error", "warning" or "note".
    """
    if severity not in SEVERITIES:
        raise ValueError(f"raise_if(severity=...) expects one of {', '.join(SEVERITIES)}, not {severity!r}.")
    return SEVERITIES[: SEVERITIES.index(severity) + 1]


def plain_text(renderable: object, width: int = 110) -> str:
    """Return what rich would print, without colour."""
    from rich.console import Console

    out = io.StringIO()
    Console(file=out, width=width, color_system=None, highlight=False, emoji=False, markup=False).print(renderable)
    return "\n".join(line.rstrip() for line in out.getvalue().rstrip("\n").split("\n"))
