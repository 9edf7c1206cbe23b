"""`Finding` and `Report`: what diagnosis has to say, as data that prints itself well."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

    from backsight.drawing import Drawing
    from backsight.tape import Graph

Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")
UNKNOWN = "BS200"
"""The code of a finding that only says that an error is not known."""

_STYLE = {"error": "bold red", "warning": "bold yellow", "note": "bold blue"}


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, or worth knowing.

    `code` is stable (`BS101`) and has a page in `docs/codes/`. `title` says what, in one sentence; `evidence` how we
    know; `cure` what to do; `source` where, as `file:line`, if that is known. `exact` is False for what is an
    inference, and then the evidence says so. `nodes` are the indices in `report.graph` of what it is about.
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


@dataclass(frozen=True)
class Report:
    """The findings of one audit, the gravest first. `looked_at` says how much there was to look at.

    ```python
    report = backsight.audit(loss)
    print(report)                           # each finding with its evidence and cure
    [finding.code for finding in report]    # ['BS101', 'BS109']
    report.draw("audit.svg")                # the graph, with the findings pinned to it
    report.raise_if("warning")
    ```
    """

    findings: tuple[Finding, ...]
    looked_at: str = ""
    graph: Graph | None = field(default=None, repr=False, compare=False)

    def draw(self, file: str | os.PathLike[str] | None = None, **look: Any) -> Drawing:
        """Return the picture of the audited graph, each finding pinned to the nodes that it is about.

        Args:
            file: where to write it; the suffix says which format.
            look: what else to show, as in `backsight.drawing.Look`.

        Raises:
            ValueError: if the report is not about one graph, but about a recorded run.
        """
        from backsight.drawing import Pin, draw

        if self.graph is None:
            raise ValueError("this report is not about a graph: only what backsight.audit(loss) returned can be drawn.")
        pins = [Pin(f.nodes, f"{f.code}: {f.title}") for f in self.findings if f.nodes]
        return draw(self.graph, file, **{"pins": pins, **look})

    def raise_if(self, severity: Severity = "error") -> None:
        """Raise `AuditFailed` if there is a finding of this severity or a graver one.

        Raises:
            AuditFailed: with the report as its message.
            ValueError: if `severity` is not "error", "warning" or "note".
        """
        if severity not in SEVERITIES:
            raise ValueError(f"raise_if(severity=...) expects one of {', '.join(SEVERITIES)}, not {severity!r}.")
        grave = SEVERITIES[: SEVERITIES.index(severity) + 1]
        if any(f.severity in grave for f in self.findings):
            raise AuditFailed(self)

    def without_notes(self) -> Report:
        """Return the report without what is only worth knowing."""
        return replace(self, findings=tuple(f for f in self.findings if f.severity != "note"))

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __len__(self) -> int:
        return len(self.findings)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.text import Text

        if not self.findings:
            yield Text.assemble(
                ("backsight: nothing found", "green"), (f" in {self.looked_at}" if self.looked_at else "", "dim")
            )
        for k, finding in enumerate(self.findings):
            if k:
                yield Text("")
            yield finding

    def __str__(self) -> str:
        return plain_text(self)


class AuditFailed(RuntimeError):
    """An audit found something of the severity that was asked for; `report` holds it."""

    def __init__(self, report: Report):
        super().__init__(f"{len(report)} finding{'s' * (len(report) != 1)}\n{report}")
        self.report = report


def plain_text(renderable: object, width: int = 110) -> str:
    """Return what rich would print, without colour."""
    from rich.console import Console

    out = io.StringIO()
    Console(file=out, width=width, color_system=None, highlight=False, emoji=False, markup=False).print(renderable)
    return "\n".join(line.rstrip() for line in out.getvalue().rstrip("\n").split("\n"))
