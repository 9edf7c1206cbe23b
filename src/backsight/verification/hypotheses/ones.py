"""BS401, of a gradient that cannot be asked for again: it is right for a grad_output of ones."""

from __future__ import annotations

import torch

from backsight.verification.case import Case, Known
from backsight.verification.hypotheses.explanation import Explanation


def for_ones(case: Case) -> Explanation | None:
    """The gradient of the sum of the outputs, and not of the loss."""
    ones = [torch.ones_like(u) for u in case.draws[0].us]
    if Known.BACKWARD in case.known or not bool(case.equal(case.at(case.draws[0].got), case.right_for(ones)).all()):
        return None
    return Explanation(
        f"{case.subject} ignores {case.grad_output}.",
        (
            f"It is the gradient of `{case.argument}` for a {case.grad_output} of ones: the derivative of the sum of "
            "the outputs, not of the loss.",
        ),
        "Multiply by the error signal: the chain rule.",
    )
