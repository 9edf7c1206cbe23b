"""`Verification`: which backward is right, which is wrong and how, and what could not be told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from backsight.findings import Finding, Severity, graver_or_equal, plain_text
from backsight.source import Place

if TYPE_CHECKING:
    from backsight.text.rich import Console, ConsoleOptions, RenderResult, Text

_MOST_CALLS = 3
_MOST_NAMES = 8


@dataclass(frozen=True)
class WrongGradient(Finding):
    """A finding about the backward of one operation.

    `operation` is the name of the operation or of the `torch.autograd.Function`; `input` the argument of its forward
    whose gradient is wrong, "" where it is no one's in particular, and several with commas between them. `calls` is
    where the operation was called, `forward` and `backward` where they are defined; None for PyTorch's own.
    """

    operation: str = ""
    input: str = ""
    calls: tuple[Place, ...] = ()
    forward: Place | None = None
    backward: Place | None = None

    def _places(self, is_shown: bool) -> Iterator[Text]:
        """The lines `called`, `forward` and `backward`, their texts in one column."""
        from backsight.text.rich import Text

        shown = self.calls[:_MOST_CALLS]
        rows = [("called", place) for place in shown]
        rows += [(role, place) for role, place in (("forward", self.forward), ("backward", self.backward)) if place]
        width = max((len(str(place)) for _, place in rows), default=0)
        for number, (role, place) in enumerate(rows, start=1):
            line = Text.assemble((f"  {role:<8}  ", "dim"), (f"{place!s:<{width}}", "cyan"), "  ", place.text)
            line.no_wrap, line.overflow = True, "ellipsis"
            yield line
            if number == len(shown) < len(self.calls):
                yield Text(f"{'':12}and {len(self.calls) - number} more", "dim")


@dataclass(frozen=True)
class Checked:
    """An operation whose backward was tested. `how` says by what means, `source` where it was called."""

    name: str
    right: bool = True
    source: str | None = None
    how: str = ""


@dataclass(frozen=True)
class Skipped:
    """An operation whose backward was not tested, and why.

    `own` says that it is the program's: PyTorch's own operations are proven by PyTorch's tests, this one by nobody.
    """

    name: str
    why: str
    source: str | None = None
    own: bool = False


@dataclass(frozen=True)
class Verification:
    """What a verification found, the gravest first.

    ```python
    result = backsight.verify(model, x)
    print(result)
    result.ok                               # nothing is wrong, and all that is yours was tested
    [finding.code for finding in result]    # ['BS402']
    result.raise_if("warning")
    ```

    `checked` holds every operation that was tested, the wrong ones included, `skipped` those that could not be, each
    with the reason. `subject` names what was tested one by one, `claim` what was tested of it, `verdict` what it is
    where nothing is wrong.
    """

    findings: tuple[Finding, ...] = ()
    checked: tuple[Checked, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    subject: str = "operation"
    claim: str = "backward"
    verdict: str = "correct"

    @property
    def ok(self) -> bool:
        """Whether something was tested, nothing of the program's own was skipped, and only notes were found."""
        harmless = all(finding.severity == "note" for finding in self.findings)
        return bool(self.checked) and harmless and not self.unproven

    @property
    def unproven(self) -> tuple[Skipped, ...]:
        """What is the program's own and could not be tested."""
        return tuple(each for each in self.skipped if each.own)

    @property
    def wrong(self) -> tuple[Checked, ...]:
        """What was tested and is wrong."""
        return tuple(each for each in self.checked if not each.right)

    def raise_if(self, severity: Severity = "error") -> None:
        """Raise `VerificationFailed` if there is a finding of this severity or a graver one.

        Raises:
            VerificationFailed: with this report as its message.
            ValueError: if `severity` is not "error", "warning" or "note".
        """
        grave = graver_or_equal(severity)
        if any(finding.severity in grave for finding in self.findings):
            raise VerificationFailed(self)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __len__(self) -> int:
        return len(self.findings)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from backsight.text.rich import Text

        yield _headline(self)
        for finding in self.findings:
            yield Text("")
            yield finding
        if self.findings and self.skipped:
            yield Text("")
        yield from _unchecked(self.skipped)

    def __str__(self) -> str:
        return plain_text(self)


class VerificationFailed(RuntimeError):
    """A verification found something of the severity that was asked for; `report` holds it."""

    def __init__(self, report: Verification):
        super().__init__(f"{len(report)} finding{'s' * (len(report) != 1)}\n{report}")
        self.report = report


def _headline(report: Verification) -> Text:
    from backsight.text.rich import Text

    tested, wrong = len(report.checked), len(report.wrong)
    many = f"{tested} {report.subject}{'s' * (tested != 1)}"
    if not tested:
        return Text("backsight: nothing could be tested", "bold yellow")
    if wrong:
        verdict = f"{wrong} of {many} {'has' if wrong == 1 else 'have'} a wrong {report.claim}"
        names = _names(each.name for each in report.wrong)
        return Text.assemble((f"backsight: {verdict}", "bold red"), (f": {names}", "red"))
    every = "every" if tested != 1 else "the"
    names = _names(each.name for each in report.checked)
    verdict = f"{many} tested, {every} {report.claim} is {report.verdict}"
    if unproven := _names(each.name for each in report.unproven):
        return Text.assemble((f"backsight: {unproven} could not be tested", "bold yellow"), f"; {verdict}: {names}")
    return Text.assemble((f"backsight: {verdict}", "green"), (f": {names}", "dim"))


def _names(names: Iterable[str]) -> str:
    """Return `mm ×3, relu, Poly`, the most frequent first."""
    ranked = Counter(names).most_common()
    shown = [name if count == 1 else f"{name} ×{count}" for name, count in ranked[:_MOST_NAMES]]
    rest = sum(count for _, count in ranked[_MOST_NAMES:])
    return ", ".join([*shown, *([f"{rest} more"] if rest else [])])


def _unchecked(skipped: tuple[Skipped, ...]) -> Iterator[Text]:
    """One line for each reason, with the operations that share it."""
    from backsight.text.rich import Text

    reasons: dict[str, list[str]] = {}
    for each in skipped:
        reasons.setdefault(each.why, []).append(each.name)
    for why, names in reasons.items():
        yield Text.assemble(("not tested: ", "bold yellow"), _names(names), (f" ({why})", "dim"))
