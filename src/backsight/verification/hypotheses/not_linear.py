"""BS418: backward is not linear in grad_output, and nothing else explains the gradient."""

from __future__ import annotations

from backsight.verification.case import Case
from backsight.verification.hypotheses.explanation import Explanation
from backsight.verification.wording import number


def not_linear(case: Case) -> Explanation | None:
    """For the sum of two grad_outputs it does not return the sum."""
    first, second = case.draws
    together = case.backward([a + b for a, b in zip(first.us, second.us, strict=True)])
    got, sums = case.at(together), case.at(first.got + second.got)
    unequal = ~case.equal(got, sums)
    if not bool(unequal.any()):
        return None
    worst = (got - sums).abs().argmax()
    return Explanation(
        f"{case.subject} is not linear in grad_output.",
        (
            f"For the sum of two gradients it must return the sum of what it returns for each; {case.counted(unequal)} "
            f"for `{case.argument}` differ, as {number(got[worst])} from {number(sums[worst])}.",
        ),
        "Return grad_output times the derivative of forward, which does not depend on grad_output. To clip or "
        "normalise gradients, use a hook, so that the Function itself stays right.",
    )
