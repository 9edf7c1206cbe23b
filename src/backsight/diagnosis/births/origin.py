"""Which birth is the one to tell: where NaN or infinity really came from, and what it led to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from backsight.diagnosis.births.birth import Birth
from backsight.diagnosis.births.safe import condition_around
from backsight.tracing import NonFinite


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
    return next(named, None) or next(assigned, None) or (before[0] if len(before) == 1 else None)
