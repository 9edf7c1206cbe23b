"""BS406, in particular: the gradient of one sample of a batch, overwritten in a loop instead of added."""

from __future__ import annotations

import torch

from backsight.verification.case import Case, Known
from backsight.verification.hypotheses.explanation import Explanation


def of_one_sample(case: Case) -> Explanation | None:
    """The gradient is that of the first or the last sample alone."""
    count = case.output.shape[0] if case.single and case.output.dim() > 1 else 1
    if count < 2 or case.shape[:1] == case.output.shape[:1]:  # an input of the batch has a gradient for each
        return None
    for sample, which in ((count - 1, "last"), (0, "first")):
        if all(_is_alone(case, draw.u, draw.got, sample) for draw in case.draws):
            return Explanation(
                f"{case.subject} returns only the gradient of the {which} sample for `{case.argument}`.",
                (f"The batch has {count} samples, and each contributes.",),
                "In a loop over samples write += instead of =; without a loop, sum over the batch.",
            )
    return None


def _is_alone(case: Case, u: torch.Tensor, got: torch.Tensor, sample: int) -> bool:
    alone = torch.zeros_like(u)
    alone[sample] = u[sample]
    if Known.BACKWARD in case.known:  # the cheaper question first
        again = case.backward([alone])
        if again is None or not bool(case.equal(again, got).all()):
            return False
    return bool(case.equal(case.at(got), case.right_for([alone])).all())
