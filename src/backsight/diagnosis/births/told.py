"""BS112: where NaN or infinity was born, why, and what to write instead."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from backsight.diagnosis.births.birth import Birth, numbers
from backsight.diagnosis.births.causes import Cause, cause_of
from backsight.diagnosis.births.origin import Origin, origin
from backsight.diagnosis.births.safe import condition_around
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import shown
from backsight.findings.evidence import Fact
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
