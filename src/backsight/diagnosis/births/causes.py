"""Why an operation gave NaN or infinity, and what to write instead: one small function for each kind, by operation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from backsight.diagnosis.births.birth import Birth
from backsight.diagnosis.births.safe import condition_around, replaced


@dataclass(frozen=True)
class Cause:
    """`because` completes a sentence: `x.log() is -inf: x is 0.0 there`. `result` is what it gave, if that is known."""

    because: str
    fix: str
    result: str = ""


Explanation = Callable[[Birth], "Cause | None"]

CAUSES: dict[str, Explanation] = {}


def cause(*operations: str) -> Callable[[Explanation], Explanation]:
    """Enter the decorated function as what explains births in these operations."""

    def enter(function: Explanation) -> Explanation:
        for operation in operations:
            CAUSES[operation] = function
        return function

    return enter


def cause_of(birth: Birth) -> Cause:
    """Return why it happened; in general terms for an operation that has no explanation of its own."""
    explanation = CAUSES.get(birth.op)
    return (explanation(birth) if explanation else None) or overflow(birth) or _unknown(birth)


_LARGEST = {"float16": "65,504", "bfloat16": "3.39e38", "float32": "3.4e38", "float64": "1.8e308"}


def overflow(birth: Birth) -> Cause | None:
    """An infinity of an operation that cannot make one but by a result too large for its dtype."""
    dtype = birth.fact.dtype
    if birth.nan or dtype not in _LARGEST:
        return None
    because = f"the result is larger than {_LARGEST[dtype]}, the largest {dtype}"
    if dtype != "float16":
        fix = "Check how large its inputs are: the model may diverge, or the data may not be normalized."
    elif birth.backward:
        fix = (
            "Use torch.amp.GradScaler, which skips such a step and lowers its scale. Or use bfloat16, which has the "
            "range of float32."
        )
    else:
        fix = "Compute it in float32 (.float() on its input), or use bfloat16, which has the range of float32."
    return Cause(because, fix)


def _unknown(birth: Birth) -> Cause:
    what = "a finite gradient" if birth.backward else "finite values"
    return Cause(
        f"{birth.op} received {what}",
        "Find where it is undefined or has no finite slope, and keep its input away from there.",
    )


def masked(birth: Birth, operand: str, safe: str, otherwise: str) -> str:
    """Return the fix where the loss does not use the values: the input has to be made safe, and not the result.

    `safe` is a value of the operand at which all is well; `otherwise` is the fix where nothing is masked.
    """
    if not birth.cut:
        return otherwise
    condition = condition_around(birth.statement, birth.expression) or "used"
    written = operand and replaced(birth.expression, operand, f"torch.where({condition}, {operand}, {safe})")
    inner = written or f"torch.where({condition}, input, {safe})"
    return f"Before the operation, make the input safe where the result is not used: {inner}."
