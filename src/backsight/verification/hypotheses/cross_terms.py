"""BS415: cross terms are missing: only the diagonal of the Jacobian is used."""

from __future__ import annotations

from backsight.verification.case import Case
from backsight.verification.hypotheses.explanation import Explanation


def missing_cross_terms(case: Case) -> Explanation | None:
    """Each entry is grad_output times the derivative of the same output entry, and the others are left out."""
    if not case.elementwise:
        return None
    diagonal = case.diagonal()
    for draw in case.draws:
        if not bool(case.equal(case.at(draw.got), diagonal * case.at(draw.u)).all()):
            return None
    return Explanation(
        f"{case.subject} leaves out the cross terms in the gradient of `{case.argument}`.",
        (
            "Each entry that it returns is grad_output times the derivative of the output entry at the same place: the "
            "diagonal of the Jacobian.",
            "But an entry of the input also changes other entries of the output, as in a softmax or a normalization: "
            "d loss/d x_i is the sum over j of grad_output_j · d y_j/d x_i.",
        ),
        "Add the terms with j ≠ i. For y = softmax(x) the whole is "
        "y * (grad_output - (grad_output * y).sum(-1, keepdim=True)).",
    )
