"""BS400: the gradient is wrong, and no hypothesis says how."""

from __future__ import annotations

import torch

from backsight.verification.case import Case
from backsight.verification.hypotheses.explanation import Explanation
from backsight.verification.trial import Wrong
from backsight.verification.wording import number

_SHOWN = 3


def unexplained(case: Case) -> Explanation:
    """Show the worst entries beside the right ones."""
    got, right = case.at(case.draws[0].got), case.draws[0].right
    wrong = case.is_wrong
    off = (got - right).abs()
    worst = off.topk(min(_SHOWN, off.numel())).indices.tolist() if off.numel() else []
    shown = [_entry(case, k, got, right) for k in worst if bool(off[k] > 0)]
    evidence = []
    if bool(wrong.any()):
        evidence.append(f"{case.counted(wrong).capitalize()} are wrong. The worst:")
        evidence += [f"  {line}" for line in shown]
    else:
        evidence.append(
            f"Along a random direction it says {number(case.wrong.found)} where forward changes by "
            f"{number(case.wrong.slope.value)}; the entries looked at are right."
        )
    return Explanation(
        f"{case.subject} returns a wrong gradient for `{case.argument}`.",
        tuple(evidence),
        "Derive it anew from forward: the gradient of an input is the sum over outputs of grad_output times the "
        "derivative of that output with respect to the input.",
    )


def out_of_time(wrong: Wrong, why: Exception) -> Explanation:
    """Say that a gradient is wrong where no time was left to find out how."""
    operation = wrong.pull.point.operation
    argument = operation.argument(wrong.pull.point.wanted[wrong.number])
    return Explanation(
        f"{operation.backward} returns a wrong gradient for `{argument}`.",
        (
            f"Along a random direction it says {number(wrong.found)} where forward changes by "
            f"{number(wrong.slope.value)}. How it is wrong was not looked into: {why}.",
        ),
        "Give it more time, or a smaller input.",
    )


def _entry(case: Case, k: int, got: torch.Tensor, right: torch.Tensor) -> str:
    at = torch.unravel_index(case.positions[k], case.input.shape)
    index = ", ".join(str(int(each)) for each in at)
    value = number(case.at(case.input)[k])
    return f"{case.argument}[{index}] = {value}: returned {number(got[k])}, right {number(right[k])}"
