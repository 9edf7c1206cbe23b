"""BS415: only the diagonal of the Jacobian is used, though an entry of the input changes several of the output."""

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
        f"{case.subject} returns the gradient of `{case.argument}` as if each output entry depended only on the input "
        "entry at the same place.",
        (
            "Each entry that it returns is grad_output times the derivative of the output entry at the same place: the "
            "diagonal of the Jacobian.",
            f"But each entry of `{case.argument}` also changes other output entries, as in a softmax or normalization. "
            "Entry i of the gradient is the sum of grad_output[j] * dy[j]/dx[i] over all j.",
        ),
        "Sum over all output entries. For y = softmax(x), that is "
        "y * (grad_output - (grad_output * y).sum(-1, keepdim=True)).",
    )
