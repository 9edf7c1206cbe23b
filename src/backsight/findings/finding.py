"""`Finding`: one thing that is wrong, or worth knowing, with its evidence and its fix."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from backsight.findings.evidence import Evidence, doubt, evidence_of
from backsight.source.edits import Alternative, alternatives, fitting, without_marks
from backsight.text import PIPED, as_code

if TYPE_CHECKING:
    from backsight.text.rich import Console, ConsoleOptions, RenderResult, Text

Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, or worth knowing.

    `code` is stable (`BS101`) and has a page in `docs/codes/`. `title` says what, in one sentence; `evidence` how we
    know: texts, and `Evidence` that knows its statement and how certain it is (`str()` gives the text of either); `fix`
    what to do; `source` where, as `file:line`, if that is known. `exact` is False for what is an inference. `nodes` are
    the indices, in the graph that was looked at, of what it is about. `since` is the optimizer step
    since which it holds in a training that was watched, the first being step 0. `edits` are what `fix` asks for as
    data, a tuple for each alternative that can be applied as it stands: `backsight fix` tries them.
    """

    code: str
    severity: Severity
    title: str
    evidence: tuple[Evidence | str, ...] = ()
    fix: str = ""
    source: str | None = None
    exact: bool = True
    nodes: tuple[int, ...] = ()
    since: int | None = None
    edits: tuple[Alternative, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        fix = fitting(self.fix)
        object.__setattr__(self, "edits", (*self.edits, *alternatives(fix)))
        object.__setattr__(self, "fix", as_code(without_marks(fix)))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from backsight.findings.printing.excerpt import shown_at
        from backsight.findings.printing.terminal import STYLES, framed, paragraphs
        from backsight.text.rich import Padding, Text

        if console.is_terminal:
            yield from framed(self, console, options)
            return
        head = Text.assemble(
            (f"{self.severity} ", STYLES[self.severity]), (self.code, "dim"), "  ", (self.title, "bold")
        )
        yield head
        facts = [evidence_of(each) for each in (*self.evidence, doubt(self.evidence)) if each]
        at = shown_at(facts, self.source)
        is_one_of_several = len({each.place for each in facts if each.place is not None}) > 1
        for fact in facts:
            yield from paragraphs(console, str(fact), options, ">" if is_one_of_several and fact.place in at else " ")
        yield from self._places(bool(at))
        if self.fix:
            yield Padding(Text.assemble(("fix: ", "bold green"), self.fix), (0, 0, 0, 2))

    def _places(self, is_shown: bool) -> Iterator[Text]:
        """Yield lines that tell where it is, below the evidence: none if that shows it."""
        from backsight.text.rich import Text

        if self.source and not is_shown:
            yield Text.assemble("  ", ("at ", "dim"), (self.source, "cyan"))

    @property
    def cure(self) -> str:
        """The old name of `fix`; it goes with the next release."""
        warnings.warn("Finding.cure is called fix now: use finding.fix.", DeprecationWarning, stacklevel=2)
        return self.fix

    def __str__(self) -> str:
        return plain_text(self)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data for `json.dumps`, in the shape of docs/json.md."""
        from backsight.findings.printing.data import to_data

        return to_data(self)

    def _repr_html_(self) -> str:
        from backsight.findings.printing.page import to_html

        return to_html(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))  # IPython would print the fields


def graver_or_equal(severity: Severity) -> tuple[Severity, ...]:
    """Return this severity and the graver ones, for `raise_if`.

    Raises:
        ValueError: if `severity` is not "error", "warning" or "note".
    """
    if severity not in SEVERITIES:
        raise ValueError(f"raise_if(severity=...) expects one of {', '.join(SEVERITIES)}, not {severity!r}.")
    return SEVERITIES[: SEVERITIES.index(severity) + 1]


def plain_text(renderable: object) -> str:
    """Return what rich would print, without colour."""
    from backsight.text.console import printed

    return printed(renderable, width=PIPED)  # type: ignore[arg-type]  # whatever rich can print
