"""`HYPOTHESES`: how a gradient can be wrong, in the order in which it is tried."""

from __future__ import annotations

from dataclasses import replace

from backsight.verification.case import Case
from backsight.verification.hypotheses.broadcast import missing_sum
from backsight.verification.hypotheses.constant_added import constant_added
from backsight.verification.hypotheses.cross_terms import missing_cross_terms
from backsight.verification.hypotheses.explanation import Explanation, Hypothesis
from backsight.verification.hypotheses.factor import constant_factor
from backsight.verification.hypotheses.ignores_grad_output import ignores_grad_output
from backsight.verification.hypotheses.mask import wrong_mask
from backsight.verification.hypotheses.missing_factor import missing_factor
from backsight.verification.hypotheses.none import nothing_returned
from backsight.verification.hypotheses.not_finite import not_finite
from backsight.verification.hypotheses.not_linear import not_linear
from backsight.verification.hypotheses.order import wrong_order
from backsight.verification.hypotheses.sign import wrong_sign
from backsight.verification.hypotheses.surrogate import surrogate
from backsight.verification.hypotheses.transpose import missing_transpose
from backsight.verification.hypotheses.unexplained import unexplained
from backsight.verification.hypotheses.wrong_step import wrong_step

HYPOTHESES: dict[str, Hypothesis] = {
    "BS419": not_finite,  # nothing can be computed with NaN
    "BS417": surrogate,  # where the right gradient is zero nothing else can be said; others look like mistakes
    "BS401": ignores_grad_output,
    "BS402": constant_added,
    "BS403": wrong_sign,
    "BS404": constant_factor,
    "BS405": missing_transpose,
    "BS406": missing_sum,
    "BS407": wrong_order,
    "BS408": wrong_mask,
    "BS409": nothing_returned,
    "BS415": missing_cross_terms,
    "BS416": missing_factor,
    "BS418": not_linear,
}
"""By code: the first that fits explains the gradient."""


def explained(case: Case) -> tuple[str, Explanation]:
    """Return the code and the words of the first hypothesis that fits; BS400 where none does.

    What explains the gradient as a whole comes first, then what is wrong in one step of forward.
    """
    for code, hypothesis in HYPOTHESES.items():
        found = hypothesis(case)
        if found is not None:
            return code, _through(case, found)
    if (step := wrong_step(case)) is not None:
        return step[0], _through(case, step[1])
    return "BS400", _through(case, unexplained(case))


def _through(case: Case, explanation: Explanation) -> Explanation:
    """Say through which of several outputs the gradient is wrong."""
    if not case.through:
        return explanation
    first = f"Only what arrives{case.through} is looked at here, counted from 0; there the gradient is wrong."
    return replace(explanation, evidence=(first, *explanation.evidence))
