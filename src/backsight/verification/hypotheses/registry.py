"""`HYPOTHESES`: how a gradient can be wrong, in the order in which it is tried."""

from __future__ import annotations

from dataclasses import replace

from backsight.verification.case import Case, Known
from backsight.verification.hypotheses.broadcast import missing_sum
from backsight.verification.hypotheses.constant_added import constant_added
from backsight.verification.hypotheses.cross_terms import missing_cross_terms
from backsight.verification.hypotheses.explanation import Explanation, Hypothesis
from backsight.verification.hypotheses.factor import constant_factor
from backsight.verification.hypotheses.ignores_grad_output import for_ones, ignores_grad_output
from backsight.verification.hypotheses.mask import wrong_mask
from backsight.verification.hypotheses.missing_factor import missing_factor, missing_last_step
from backsight.verification.hypotheses.none import nothing_returned
from backsight.verification.hypotheses.not_finite import not_finite
from backsight.verification.hypotheses.not_linear import not_linear
from backsight.verification.hypotheses.order import wrong_order
from backsight.verification.hypotheses.shape import of_one_sample, shifted, wrong_shape
from backsight.verification.hypotheses.sign import wrong_sign
from backsight.verification.hypotheses.surrogate import surrogate
from backsight.verification.hypotheses.transpose import missing_transpose
from backsight.verification.hypotheses.unexplained import nearly_right, unexplained
from backsight.verification.hypotheses.wrong_dimension import wrong_dimension
from backsight.verification.hypotheses.wrong_step import wrong_step

FORWARD, BACKWARD, BOTH = Known.FORWARD, Known.BACKWARD, Known.FORWARD | Known.BACKWARD

HYPOTHESES: tuple[tuple[str, Hypothesis, Known], ...] = (
    ("BS406", wrong_shape, FORWARD),  # nothing else can be said of such a one
    ("BS409", nothing_returned, Known(0)),
    ("BS419", not_finite, FORWARD),  # nothing can be computed with NaN
    ("BS417", surrogate, BOTH),  # where the right gradient is zero nothing else can be said; others look like mistakes
    ("BS401", ignores_grad_output, BACKWARD),
    ("BS401", for_ones, FORWARD),
    ("BS402", constant_added, BACKWARD),
    ("BS403", wrong_sign, FORWARD),
    ("BS404", constant_factor, FORWARD),
    ("BS405", missing_transpose, FORWARD),
    ("BS405", shifted, FORWARD),
    ("BS406", missing_sum, FORWARD),
    ("BS406", of_one_sample, FORWARD),
    ("BS407", wrong_order, FORWARD),
    ("BS416", missing_factor, FORWARD),
    ("BS416", missing_last_step, BOTH),
    ("BS418", not_linear, BACKWARD),
    ("BS406", wrong_dimension, FORWARD),
    ("BS416", wrong_step, FORWARD),
    ("BS408", wrong_mask, FORWARD),
    ("BS415", missing_cross_terms, FORWARD),
    ("BS400", nearly_right, FORWARD),
    ("BS400", unexplained, FORWARD),
)
"""Code, function, and what it has to know of the case: the first that fits explains the gradient.

What explains the gradient as a whole comes first, then what is wrong in one step of forward.
"""


def explained(case: Case) -> tuple[str, Explanation] | None:
    """Return the code and the words of the first hypothesis that fits.

    None where the forward is not known, and nothing is wrong that can be told without it.
    """
    for code, hypothesis, needed in HYPOTHESES:
        if needed in case.known and (found := hypothesis(case)) is not None:
            return found.code or code, _through(case, found)
    return None


def certain(case: Case) -> tuple[str, Explanation]:
    """Return them for a gradient that the forward shows to be wrong: at least which of its entries are."""
    found = explained(case)
    assert found is not None and Known.FORWARD in case.known
    return found


def _through(case: Case, explanation: Explanation) -> Explanation:
    """Say through which of several outputs the gradient is wrong, and if a part of it is looked at."""
    if case.symmetric:
        told = f"Forward reads one triangle of `{case.argument}`: the symmetric parts of the gradients are compared."
        explanation = replace(explanation, evidence=(*explanation.evidence, told))
    if not case.through:
        return explanation
    first = f"Only what arrives{case.through} is checked here, counted from 0; there the gradient is wrong."
    return replace(explanation, evidence=(first, *explanation.evidence))
