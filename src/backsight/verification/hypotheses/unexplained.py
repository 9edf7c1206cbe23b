"""BS400: the gradient is wrong, and no hypothesis says how."""

from __future__ import annotations

import torch

from backsight.verification.case import Case
from backsight.verification.hypotheses.explanation import Explanation
from backsight.verification.trial import Wrong
from backsight.verification.wording import number

WORST, PLACES = 3, 6
"""So many wrong entries are shown, and so many rows or columns of them named."""

NEARLY = 1e-2


def nearly_right(case: Case) -> Explanation | None:
    """Right to a few digits."""
    got, right = case.at(case.draws[0].got), case.draws[0].right
    error = float((got - right).abs().max() / right.abs().max().clamp_min(1e-300))
    if not bool(case.is_wrong.any()) or not error < NEARLY:
        return None
    return Explanation(
        f"{case.subject} returns a gradient for `{case.argument}` that is only right to {error:.1g}.",
        ("That is the largest difference, relative to the largest entry. The worst:", *_worst(case)),
        "Such a difference comes from a term such as eps that was left out, from numerical differentiation, or from a "
        "coarser dtype.",
    )


def unexplained(case: Case) -> Explanation:
    """Show the worst entries beside the right ones."""
    wrong = case.is_wrong
    counted = f"{case.counted(wrong).capitalize()} are wrong{lie_along(case, wrong)}. The worst:"
    evidence = [counted, *_worst(case)] if bool(wrong.any()) else [case.unfitting()]
    return Explanation(
        f"{case.subject} returns a wrong gradient for `{case.argument}`.",
        tuple(evidence),
        f"Derive it again from forward: the gradient of an input is the sum over outputs of {case.grad_output} times "
        "the derivative of that output with respect to the input.",
    )


def out_of_time(wrong: Wrong, why: Exception) -> Explanation:
    """Say that a gradient is wrong where no time was left to find out how."""
    operation = wrong.pull.point.operation
    argument = operation.argument(wrong.pull.point.wanted[wrong.number])
    return Explanation(
        f"{operation.backward} returns a wrong gradient for `{argument}`.",
        (
            f"Along a random direction it says {number(wrong.found)} where forward changes by "
            f"{number(wrong.slope.value)}. How it is wrong was not determined: {why}.",
        ),
        "Give it more time, or a smaller input.",
    )


def _worst(case: Case) -> list[str]:
    """The entries that are most wrong, a line each."""
    got, right = case.at(case.draws[0].got), case.draws[0].right
    off = (got - right).abs()
    worst = off.topk(min(WORST, off.numel())).indices.tolist() if off.numel() else []
    return [f"  {_entry(case, k, got, right)}" for k in worst if bool(off[k] > 0)]


def _entry(case: Case, k: int, got: torch.Tensor, right: torch.Tensor) -> str:
    at = torch.unravel_index(case.positions[k], case.shape)
    index = ", ".join(str(int(each)) for each in at)
    value = number(case.at(case.input)[k])
    return f"{case.argument}[{index}] = {value}: returned {number(got[k])}, must be {number(right[k])}"


def lie_along(case: Case, wrong: torch.Tensor) -> str:
    """Say along which rows or columns the wrong entries lie, if they lie along few."""
    if wrong.numel() != case.shape.numel() or len(case.shape) < 2:
        return ""
    entries = wrong.reshape(case.shape)
    for dim, size in enumerate(case.shape):
        others = tuple(k for k in range(entries.dim()) if k != dim)
        hit, whole = entries.any(others), entries.all(others)
        places = hit.nonzero().flatten().tolist()
        if len(places) < size and bool((hit == whole).all()):
            kind = {0: "row", 1: "column"}.get(dim, "place") + "s" * (len(places) > 1)
            listed = ", ".join(map(str, places[:PLACES])) + ", …" * (len(places) > PLACES)
            return f", all of {kind} {listed}" + f" in dimension {dim}" * (dim > 1)
    return ""
