"""BS408: the gradient is masked in the wrong places."""

from __future__ import annotations

import torch

from backsight.verification.case import Case
from backsight.verification.hypotheses.explanation import Explanation
from backsight.verification.hypotheses.unexplained import lie_along
from backsight.verification.wording import number


def wrong_mask(case: Case) -> Explanation | None:
    """Every wrong entry is zero where it must not be, or is not where it must; all others are right."""
    got, right = case.at(case.draws[0].got), case.draws[0].right
    zero = torch.zeros_like(right)
    wrong = case.is_wrong
    stopped = wrong & (got == 0)
    if bool(stopped.any()) and not case.elementwise:  # a path that is left out, and no mask
        return None
    let_through = wrong & case.equal(zero, right)
    if not bool((wrong == (stopped | let_through)).all()) or bool((stopped | case.equal(zero, right)).all()):
        return None
    if bool(wrong.all()) and not (bool(stopped.any()) and bool(let_through.any())):
        return None
    values = case.at(case.input)
    lie = lie_along(case, stopped)
    evidence = []
    if bool(stopped.any()):
        evidence.append(
            f"It stops the gradient at {case.counted(stopped)}{lie}, where forward does change with `{case.argument}`"
            f"{'' if lie else _between(values[stopped])}."
        )
    if bool(let_through.any()):
        evidence.append(
            f"It lets the gradient through at {case.counted(let_through)}, where forward does not change with "
            f"`{case.argument}`{_between(values[let_through])}."
        )
    evidence.append(f"The other entries are right{'' if lie else _between(values[~wrong])}.")
    return Explanation(
        f"{case.subject} returns the gradient of `{case.argument}` with zeros in the wrong places.",
        tuple(evidence),
        "Compute the mask in backward with the same comparison as in forward: same tensor, bound and direction.",
    )


def _between(values: torch.Tensor) -> str:
    if not values.numel() or values.is_complex():
        return ""
    low, high = number(values.min()), number(values.max())
    return f" (it is {low} there)" if low == high else f" (it lies between {low} and {high} there)"
