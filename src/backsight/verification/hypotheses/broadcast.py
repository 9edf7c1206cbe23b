"""BS406: a sum over broadcast dimensions is missing."""

from __future__ import annotations

import math
from itertools import combinations

import torch

from backsight.tape.rows import dimensions
from backsight.verification.case import Case, Known
from backsight.verification.hypotheses.explanation import Explanation
from backsight.verification.wording import ADDED_UP


def missing_sum(case: Case) -> Explanation | None:
    """An input is broadcast, and its gradient is that of one copy, the mean of all, or a sum along other dimensions."""
    spread = broadcast_dimensions(case)
    if not spread:
        return None
    how = _instead(case, spread)
    if how is None:
        return None
    along = _dimensions(spread)
    own, whole = dimensions(case.input.shape), dimensions(case.draws[0].u.shape)
    evidence = (
        f"`{case.argument}` ({own}) is broadcast to the output ({whole}): each entry is used {copies(case)} times. "
        f"Backward {how}.",
        ADDED_UP,
    )
    return Explanation(
        f"{case.subject} lacks the sum over broadcast {along} in the gradient of `{case.argument}`.",
        evidence,
        f"Sum over {along}: `.sum({spread[0] if len(spread) == 1 else tuple(spread)})`.",
    )


def _instead(case: Case, spread: list[int]) -> str | None:
    """What backward does instead of summing over these dimensions; None where it is something else."""
    if case.fits(lambda draw: draw.got * copies(case)):
        return "returns the mean over them but must return the sum"
    for dimension in spread:
        size = case.draws[0].u.shape[dimension]
        for index, which in ((0, "first"), (size - 1, "last")):
            if _only(case, dimension, index):
                return f"passes on the gradient of only the {which} of {size} copies"
    other = _other_dimensions(case, spread)
    return None if other is None else f"sums over {_dimensions(other)} instead"


def _dimensions(numbers: list[int]) -> str:
    return f"dimension{'s' * (len(numbers) > 1)} {' and '.join(map(str, numbers))}"


def broadcast_dimensions(case: Case) -> list[int]:
    """The dimensions of the output along which the input was repeated; none where it was not broadcast to it."""
    if not case.single:
        return []
    to, own = case.draws[0].u.shape, case.input.shape
    lead = len(to) - len(own)
    if lead < 0 or any(size not in (1, to[lead + d]) for d, size in enumerate(own)):
        return []
    return [d for d, size in enumerate(to) if size > 1 and (d < lead or own[d - lead] == 1)]


def copies(case: Case) -> int:
    """How many times each entry of the input is used by broadcasting."""
    return math.prod(case.draws[0].u.shape[d] for d in broadcast_dimensions(case))


def _only(case: Case, dimension: int, index: int) -> bool:
    """Whether backward looks at one slice of grad_output alone, and is right about it."""
    kept = [torch.zeros_like(u) for u in case.draws[0].us]
    kept[0].select(dimension, index).copy_(case.draws[0].u.select(dimension, index))
    alone = case.backward(kept) if Known.BACKWARD in case.known else case.draws[0].got
    if alone is None or not torch.equal(alone, case.draws[0].got):
        return False
    return bool(case.equal(case.at(case.draws[0].got), case.right_for(kept)).all())


def _other_dimensions(case: Case, spread: list[int]) -> list[int] | None:
    """The dimensions that grad_output is summed over, where they are others: that fits where the output is square."""
    for chosen in combinations(range(case.draws[0].u.dim()), len(spread)):
        if list(chosen) != spread and all(
            (summed := draw.u.sum(chosen)).numel() == draw.got.numel()
            and torch.allclose(summed.reshape(draw.got.shape), draw.got)
            for draw in case.draws
        ):
            return list(chosen)
    return None
