"""BS417: the forward does not change with the input, and yet a gradient is returned."""

from __future__ import annotations

from backsight.verification.case import Case
from backsight.verification.hypotheses.explanation import Explanation
from backsight.verification.hypotheses.wording import number


def surrogate(case: Case) -> Explanation | None:
    """The right gradient is zero in every entry: a step function, with a straight-through estimator perhaps."""
    got = case.at(case.draws[0].got)
    largest = float(got.abs().max())
    if not all(float(draw.right.abs().max()) <= 1e-9 * largest for draw in case.draws):
        return None
    straight = case.elementwise and bool(case.equal(case.at(case.draws[0].u), got).all())
    what = "grad_output itself" if straight else f"a gradient of up to {number(largest)}"
    return Explanation(
        f"{case.subject} returns {what} for `{case.argument}`, on which forward does not depend.",
        (
            f"Around these values the output does not change with `{case.argument}` (a rounding, a comparison, a "
            "detached value): the derivative is 0.",
        ),
        "If it is meant, as a straight-through estimator or a surrogate gradient is, leave it: it is not a derivative, "
        "and no test of derivatives can pass. Otherwise return zeros.",
        severity="warning",
    )
