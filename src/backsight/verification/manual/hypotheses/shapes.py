"""Hypotheses about gradients of a wrong shape."""

from __future__ import annotations

from itertools import combinations

import torch

from backsight.tape.rows import dimensions
from backsight.verification.manual.hypotheses.registry import hypothesis
from backsight.verification.manual.mistake import Mistake, Told

MOST_DIMENSIONS = 6


@hypothesis("BS405", 0)
def transposed(mistake: Mistake) -> Told | None:
    """The right values, rows and columns exchanged; square ones too."""
    if mistake.given.dim() < 2 or not mistake.becomes_right(lambda g: g.transpose(-1, -2)):
        return None
    shapes = _shapes(mistake) if mistake.given.shape != mistake.right.shape else "Its shape does not show it: square."
    return Told("is transposed", f"Transposed it is right. {shapes}", "Exchange the factors, or transpose the result.")


@hypothesis("BS406", 0)
def not_summed(mistake: Mistake) -> Told | None:
    """The right values before a sum: over the batch, or over the places where a weight was used."""
    given, right = mistake.given, mistake.right
    if given.dim() > MOST_DIMENSIONS or given.numel() <= right.numel():
        return None
    dims = range(given.dim())
    for count in range(1, given.dim() + 1):
        for over in combinations(dims, count):
            if mistake.becomes_right(lambda g, over=over: _as(g.sum(over), right)):  # type: ignore[misc]
                return _unsummed(mistake, over)
    return None


def _unsummed(mistake: Mistake, over: tuple[int, ...]) -> Told:
    sizes = dimensions([mistake.given.shape[k] for k in over])
    batch = over == (0,) and mistake.given.shape[0] == mistake.reference.samples
    what = "the sum over the batch" if batch else f"a sum over {_dims(over)}"
    per = "one gradient for each sample" if batch else f"a gradient for each of {sizes} uses"
    return Told(
        f"lacks {what}",
        f"{_shapes(mistake)[:-1]}: {per}. Summed over {_dims(over)} it is right.\n"
        f"All of them used the same {mistake.parameter}, so all add to its gradient.",
        f"Add .sum({over[0] if len(over) == 1 else over}).",
    )


@hypothesis("BS406", 0)
def reshaped(mistake: Mistake) -> Told | None:
    """The right values in a shape with other dimensions: (1, n) for n, or flat."""
    if mistake.given.shape == mistake.right.shape or mistake.given.numel() != mistake.right.numel():
        return None
    if not mistake.becomes_right(lambda g: g.reshape(mistake.right.shape)):
        return None
    shape = tuple(mistake.right.shape)
    return Told(
        "has another shape",
        f"Its values are right. {_shapes(mistake)}",
        f"Reshape it to {shape}; a sum with keepdim=True keeps a dimension too many.",
    )


@hypothesis("BS406", 1)
def of_another_shape(mistake: Mistake) -> Told | None:
    """The shape is wrong, and no sum or transpose of it is right."""
    if mistake.given.shape == mistake.right.shape:
        return None
    return Told(
        "has the wrong shape",
        f"{_shapes(mistake)} A gradient has one entry for each entry of what it belongs to.",
        "",
    )


def _as(tensor: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    return tensor.reshape(right.shape) if tensor.numel() == right.numel() else tensor


def _shapes(mistake: Mistake) -> str:
    given, right = dimensions(mistake.given.shape), dimensions(mistake.right.shape)
    return f"It has the shape {given}, and {mistake.parameter} has {right}."


def _dims(over: tuple[int, ...]) -> str:
    *first, last = map(str, over)
    return f"dimensions {', '.join(first)} and {last}" if first else f"dimension {last}"
