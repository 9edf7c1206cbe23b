"""`Report`: what diagnosis has to say, as data that prints itself well."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from backsight.findings import SEVERITIES, Finding, Severity, graver_or_equal, plain_text

if TYPE_CHECKING:
    from backsight.drawing import Drawing
    from backsight.tape import Graph
    from backsight.text.rich import Console, ConsoleOptions, RenderResult

__all__ = ["SEVERITIES", "UNKNOWN", "AuditFailed", "Finding", "Report", "Severity", "plain_text"]

UNKNOWN = "BS200"
"""The code of a finding that only says that an error is not known."""


@dataclass(frozen=True)
class Report:
    """The findings of one audit, the gravest first. `looked_at` says how much there was to look at, `unseen` what of
    a training this audit could not see.

    ```python
    report = backsight.audit(loss)
    print(report)                           # each finding with its evidence and fix
    [finding.code for finding in report]    # ['BS101', 'BS109']
    report.draw("audit.svg")                # the graph, with the findings pinned to it
    report.raise_if("warning")
    ```
    """

    findings: tuple[Finding, ...]
    looked_at: str = ""
    graph: Graph | None = field(default=None, repr=False, compare=False)
    unseen: str = field(default="", repr=False, compare=False)

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
            raise ValueError("this report is not about a graph: only the result of backsight.audit(loss) can be drawn.")
        pins = [Pin(f.nodes, f"{f.code}: {f.title}") for f in self.findings if f.nodes]
        return draw(self.graph, file, **{"pins": pins, "note": self._said_of_pins(), **look})

    def _said_of_pins(self) -> str:
        """Return that nothing was found, or what was found that is pinned nowhere."""
        if not self.findings:
            return f"audit: nothing found in {self.looked_at}" if self.looked_at else "audit: nothing found"
        loose = [f"{f.code}: {f.title}" for f in self.findings if not f.nodes]
        return f"audit, about no place in it: {' '.join(loose)}" if loose else ""

    def raise_if(self, severity: Severity = "error") -> None:
        """Raise `AuditFailed` if there is a finding of this severity or a graver one.

        Raises:
            AuditFailed: with the report as its message.
            ValueError: if `severity` is not "error", "warning" or "note".
        """
        grave = graver_or_equal(severity)
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
        from backsight.text.rich import Text

        if not self.findings:
            yield Text.assemble(
                ("backsight: nothing found", "green"), (f" in {self.looked_at}" if self.looked_at else "", "dim")
            )
            if self.unseen:
                yield Text(f"  {self.unseen}", "dim")
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
        from backsight.findings.printing.page import nothing_found, to_html

        return "".join(to_html(finding) for finding in self.findings) or nothing_found(self.looked_at, self.unseen)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))


class AuditFailed(RuntimeError):
    """An audit found something of the severity that was asked for; `report` holds it."""

    def __init__(self, report: Report):
        super().__init__(f"{len(report)} finding{'s' * (len(report) != 1)}\n{report}")
        self.report = report
