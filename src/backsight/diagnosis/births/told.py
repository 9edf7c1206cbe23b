"""BS112: where NaN or infinity really came from, why, and what to write instead."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from backsight.diagnosis.births.birth import Birth, Cause, cause_of, numbers
from backsight.diagnosis.births.safe import condition_around
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import shown
from backsight.findings.evidence import Fact
from backsight.source import only
from backsight.tracing import NonFinite, Values

BIRTH = "BS112"


def told(births: Sequence[NonFinite], lost: Sequence[int] = (), harm: Sequence[str] = ()) -> Finding | None:
    """Return the origin of what is not finite as a finding; None if no birth is to blame.

    Args:
        births: what a watch has seen, in order.
        lost: the backwards that began from a loss that was not finite.
        harm: sentences on what came of it.
    """
    found = origin(births, lost)
    if found is None:
        return None
    birth, cause = found.birth, cause_of(found.birth)
    return Finding(
        BIRTH,
        "error",
        f"{_subject(birth, cause)}: {cause.because}.",
        (*_evidence(found, cause), *harm),
        cause.fix,
        source=str(birth.fact.line) if birth.fact.line else None,
    )


def _subject(birth: Birth, cause: Cause) -> str:
    what = _what(birth, cause)
    if birth.cut and not birth.backward:
        return f"{birth.short} is {what} where the loss does not use it, so the gradient is NaN"
    return f"{'The gradient of ' * birth.backward}{birth.short} is {what}"


def _what(birth: Birth, cause: Cause) -> str:
    return cause.result or ("NaN" if birth.nan else "infinite")


def _evidence(found: Origin, cause: Cause) -> Iterator[Fact]:
    birth, symptom = found.birth, found.symptom
    yield _at(birth, _counted(birth, _what(birth, cause)))
    if symptom is not None and symptom.expression != birth.expression:
        caused = cause_of(symptom)
        of = "the gradient of " * symptom.backward
        yield _at(symptom, f"{of}{symptom.short} becomes {_what(symptom, caused)} because of it: {caused.because}.")
    elif birth.cut or symptom is not None:
        yield _dropped(birth)


def _at(birth: Birth, says: str) -> Fact:
    line = birth.fact.line
    return shown(line.place, says) if line else f"In {birth.fact.op}: {says}"


def _counted(birth: Birth, what: str) -> str:
    fact = birth.fact
    subject = f"{'the gradient of ' * birth.backward}{birth.short}"
    if fact.total == 1:
        of = f"{subject} is {what}"
    elif not fact.bad:  # on a device they are not counted
        of = f"some of {fact.total:,} values of {subject} are {what}"
    else:
        of = f"{fact.bad:,} of {fact.total:,} values of {subject} {'is' if fact.bad == 1 else 'are'} {what}"
    given = [f"{each.text} is {numbers(each.at)}" for each in birth.operands if _is_telling(each, fact)]
    if birth.result is not None and birth.result.at:
        given.append(f"{birth.short} is {numbers(birth.result.at)}")
    if birth.backward and fact.incoming:
        given.append(f"the incoming gradient is {numbers(fact.incoming)}")
    return f"{of}: {', '.join(dict.fromkeys(given))}." if given else f"{of}."


def _is_telling(values: Values, fact: NonFinite) -> bool:
    """Whether these are the values at the offending places, or not finite themselves."""
    size = math.prod(values.shape)
    return bool(values.text and values.at) and (values.total_nonfinite > 0 or size in (1, fact.total))


def _dropped(birth: Birth) -> str:
    """Say why values that the loss does not use matter."""
    if condition_around(birth.statement, birth.expression):
        why = "torch.where evaluates both branches, forward and backward, and 0 times NaN or infinity is NaN."
    else:
        why = "the incoming 0 is multiplied by a non-finite number, which is NaN."
    return f"The loss does not use it there, but its gradient is still computed: {why}"


@dataclass(frozen=True)
class Origin:
    """The first cause. `symptom` is where it first did harm, if that is another operation."""

    birth: Birth
    symptom: Birth | None = None


def origin(births: Sequence[NonFinite], lost: Sequence[int] = ()) -> Origin | None:
    """Return the origin of the first loss or gradient that was not finite; None if no birth is to blame.

    An infinity alone is no fault: scores are masked with it, and `torch.where` drops it again. So what happened in a
    forward pass counts if the loss was `lost` by it, or if it produced a gradient that is not finite.
    """
    if not births:
        return None
    backward = next((at for at, each in enumerate(births) if each.phase == "backward"), None)
    first = births[backward].backward if backward is not None else None
    if lost and (first is None or lost[0] <= first):
        return _of_loss([each for each in births if each.phase == "forward"])
    return None if backward is None else _of_gradient(births, births[backward])


def _of_loss(forward: Sequence[NonFinite]) -> Origin | None:
    """Return the birth that a lost loss comes from: a NaN before an infinity, and what no `torch.where` drops."""
    found = [Birth(each) for each in forward]
    likely = [birth for birth in found if not condition_around(birth.statement, birth.expression)] or found
    nan = next((birth for birth in likely if birth.nan), None)
    if nan is None:
        return Origin(likely[0]) if likely else None
    before = _source_of(nan, forward)
    return Origin(before, nan) if before else Origin(nan)


def _of_gradient(births: Sequence[NonFinite], fact: NonFinite) -> Origin:
    cut = bool(fact.incoming) and not any(fact.incoming)
    here = Birth(fact, cut)
    before = births[births.index(fact) - 1] if births[0] is not fact else None
    if before is not None and before.phase == "forward" and _is_custom(fact):
        return Origin(Birth(before), here)  # within the user's own backward
    same = next((each for each in births if each.phase == "forward" and _is_same(Birth(each), here)), None)
    if same is not None and not _is_at_edge(here):
        return Origin(Birth(same, cut), here)
    source = _source_of(here, [each for each in births if each.phase == "forward"])
    return Origin(Birth(source.fact, cut), here) if source else Origin(here)


def _is_custom(fact: NonFinite) -> bool:
    """Whether it is the node of a custom Function: those of PyTorch's own have a number at the end of their name."""
    return fact.op.endswith("Backward")


def _is_at_edge(birth: Birth) -> bool:
    """Whether what the node has saved explains its gradient: a 0 that is divided by, not a result that is NaN."""
    saved = (*birth.operands, *((birth.result,) if birth.result else ()))
    return any(value == value and abs(value) != float("inf") for each in saved for value in each.at)


def _is_same(one: Birth, other: Birth) -> bool:
    a, b = one.fact.line, other.fact.line
    return one.op == other.op and a is not None and b is not None and (a, a.segment) == (b, b.segment)


def _source_of(birth: Birth, forward: Sequence[NonFinite]) -> Birth | None:
    """Return the birth of the infinity that an operation was given, by its expression, else the last one before it."""
    infinite = [each.text for each in birth.operands if each.total_nonfinite]
    if not infinite:
        return None
    before = [Birth(each) for each in forward if each is not birth.fact and each.kind == "inf"]
    named = (each for each in before if each.expression in infinite)
    made = [birth.made_by(at) for at, each in enumerate(birth.operands) if each.total_nonfinite]
    assigned = (each for each in before if any(text.endswith(f"= {each.expression}") for text in made))
    return next(named, None) or next(assigned, None) or only(before)
