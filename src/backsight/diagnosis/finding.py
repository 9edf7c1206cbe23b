"""`Finding` and `Report`: what diagnosis has to say, as data that prints itself well."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")
UNKNOWN = "BS200"
"""The code of a finding that only says that an error is not known."""


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, or worth knowing.

    `code` is stable (`BS101`) and has a page in `docs/codes/`. `title` says what, in one sentence; `evidence` how we
    know; `cure` what to do; `source` where, as `file:line`, if that is known. `exact` is False for what is an
    inference, and then the evidence says so.
    """

    code: str
    severity: Severity
    title: str
    evidence: tuple[str, ...] = ()
    cure: str = ""
    source: str | None = None
    exact: bool = True

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.padding import Padding
        from rich.text import Text

        from backsight.diagnosis.printing.terminal import STYLES, framed

        if console.is_terminal:
            yield from framed(self, console, options)
            return
        head = Text.assemble(
            (f"{self.severity} ", STYLES[self.severity]), (self.code, "dim"), "  ", (self.title, "bold")
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

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data for `json.dumps`, in the shape of docs/json.md."""
        from backsight.diagnosis.printing.data import to_data

        return to_data(self)

    def _repr_html_(self) -> str:
        from backsight.diagnosis.printing.page import to_html

        return to_html(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))  # IPython would print the fields


@dataclass(frozen=True)
class Report:
    """The findings of one audit, the gravest first. `looked_at` says how much there was to look at.

    ```python
    report = backsight.audit(loss)
    print(report)                           # each finding with its evidence and cure
    [finding.code for finding in report]    # ['BS101', 'BS109']
    report.raise_if("warning")
    ```
    """

    findings: tuple[Finding, ...]
    looked_at: str = ""

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

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data for `json.dumps`, in the shape of docs/json.md."""
        return {"findings": [finding.to_dict() for finding in self.findings], "looked_at": self.looked_at}

    def _repr_html_(self) -> str:
        from backsight.diagnosis.printing.page import nothing_found, to_html

        return "".join(to_html(finding) for finding in self.findings) or nothing_found(self.looked_at)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))


class AuditFailed(RuntimeError):
    """An audit found something of the severity that was asked for; `report` holds it."""

    def __init__(self, report: Report):
        super().__init__(f"{len(report)} finding{'s' * (len(report) != 1)}\n{report}")
        self.report = report


def plain_text(renderable: object, width: int = 110) -> str:
    """Return what rich would print, without colour."""
    from rich.console import Console

    out = io.StringIO()
    console = Console(
        file=out,
        width=width,
        color_system=None,
        force_terminal=False,  # also where FORCE_COLOR is set, as it is in kernels of notebooks
        force_jupyter=False,  # which would display it there, and return nothing
        highlight=False,
        emoji=False,
        markup=False,
    )
    console.print(renderable)
    return "\n".join(line.rstrip() for line in out.getvalue().rstrip("\n").split("\n"))
