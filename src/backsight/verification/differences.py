"""<u, J v> by differences: how fast <u, f> changes when an input moves along v.

One central difference of double precision is right to about 1e-10 for a tame function. `slope` finds the step at which
differences agree best, says how far they still disagree (the noise floor), and whether the function has a kink here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import torch

from backsight.verification.directions import asked, inner, narrowest, products, size_of
from backsight.verification.errors import CannotTest
from backsight.verification.point import Point

COARSE = 1e-4
"""Precision from which on a type counts as half."""

COARSE_STEPS = (0.4, 0.2, 0.1, 0.05)
"""Steps tried in half precision, where smaller ones are lost in rounding."""

STEPS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8)
"""Steps tried, relative to the size of the input."""

LARGE = 1 << 17
"""An input of so many elements is moved by some of these steps alone."""

SMALLEST_SIZE = 1e-3
"""An input of smaller values, such as a bias near 0, is moved as if it were of this size."""


STILL = 1e-6
"""Relative to their sizes, an output that changes less than this with an input does not change."""


class Difference(NamedTuple):
    """A central difference, and the gap between the two one-sided ones.

    `size` is how large such a product is when signs are random.
    """

    value: float
    gap: float
    size: float


@dataclass(frozen=True)
class Slope:
    """<u, J v>, known to within `error`; `step` is the step at which it was found.

    `size` is how large the product is when signs are random, `natural` how large it would be if the output changed by
    as much as the input, both relative to their own sizes. `kink` says that the differences ahead and behind disagree
    however small the step; `eps` is the precision of the outputs.
    """

    value: float
    error: float
    size: float
    natural: float
    step: float
    kink: bool
    eps: float = 2.0**-52

    @property
    def settled(self) -> bool:
        """Whether differences of different steps agree to within a part of their size, or show no change at all."""
        return self.error <= max(self.enough * max(self.size, abs(self.value)), STILL * self.natural)

    @property
    def enough(self) -> float:
        """That part: larger where the forward computes in half precision."""
        return 0.3 if self.eps > COARSE else 0.03


def step_for(point: Point, number: int) -> float:
    """Return the step for one central difference: the cube root of the precision, a little less for kinks' sake."""
    size = max(size_of(point.inputs[number]), SMALLEST_SIZE)
    return size * (1e-6 if point.eps < 1e-10 else float(point.eps ** (1 / 3)))


def central(
    point: Point, directions: Mapping[int, torch.Tensor], us: Sequence[torch.Tensor], step: float
) -> tuple[float, float]:
    """Return <u, J v> by one central difference, and the size of its terms (the root of their sum of squares).

    `directions` are by the number of the input.
    """
    by = {number: direction * step for number, direction in directions.items()}
    ahead, behind = point.moved_together(by), point.moved_together({number: -each for number, each in by.items()})
    value = size = 0.0
    for u, a, b in zip(us, ahead, behind, strict=True):
        terms = products(u, a - b)
        value += float(terms.sum())
        size += float(torch.linalg.vector_norm(terms)) ** 2
    return value / (2 * step), size**0.5 / (2 * step)


def slope(point: Point, number: int, direction: torch.Tensor, us: Sequence[torch.Tensor]) -> Slope:
    """Return <u, J v> by the differences that agree best."""
    here = point.moved(number, None)
    size = max(size_of(point.inputs[number]), SMALLEST_SIZE)
    level = sum(float(torch.linalg.vector_norm(products(u, asked(u, y)))) for u, y in zip(us, here, strict=True))
    eps = _precision(point, number, direction * (STEPS[0] * size))
    rounding = eps * level  # of the outputs
    steps = COARSE_STEPS if eps > COARSE else STEPS if point.inputs[number].numel() < LARGE else STEPS[3:7]
    tried = [(step * size, _difference(point, number, direction, us, here, step * size)) for step in steps]
    best = Slope(float("nan"), float("inf"), 1.0, level / size, steps[-1] * size, False)
    for (wide_step, wider), (step, narrower) in pairwise(tried):
        if wider is None or narrower is None:
            continue
        error = abs(wider.value - narrower.value) + rounding / step
        if error < best.error:
            kink = _has_kink(wider, narrower, step / wide_step)
            best = Slope(narrower.value, error, narrower.size, level / size, step, kink, eps)
    return best


def _precision(point: Point, number: int, by: torch.Tensor) -> float:
    """Return the precision of the outputs: of float64 ones too, which may come of a narrower computation.

    They are looked at beside this point: here they may be round numbers by chance.
    """
    try:
        beside = point.moved(number, by)
    except CannotTest:
        raise
    except Exception:  # the function leaves its domain
        return point.eps
    return max([point.eps, *(torch.finfo(dtype).eps for y in beside if (dtype := narrowest(y)))])


def _has_kink(wider: Difference, narrower: Difference, shrunk: float) -> bool:
    """Where a function is smooth, the gap between the differences ahead and behind shrinks with the step."""
    return narrower.gap > 1e-4 * narrower.size and narrower.gap > 2.5 * wider.gap * shrunk


def _difference(
    point: Point,
    number: int,
    direction: torch.Tensor,
    us: Sequence[torch.Tensor],
    here: Sequence[torch.Tensor],
    step: float,
) -> Difference | None:
    """Return the differences at one step; None where the function leaves its domain."""
    by = direction * step
    try:
        ahead, behind = point.moved(number, by), point.moved(number, -by)
    except CannotTest:
        raise
    except Exception:  # such as linalg.cholesky: the matrix is not positive definite there
        return None
    value = gap = size = 0.0
    for u, a, b, h in zip(us, ahead, behind, here, strict=True):
        terms = products(u, asked(u, a - b))
        value += float(terms.sum())
        size += float(torch.linalg.vector_norm(terms)) ** 2
        gap += inner(u, asked(u, a + b - 2 * h))
    found = Difference(value / (2 * step), abs(gap) / step, size**0.5 / (2 * step))
    return found if found.value - found.value == 0 else None
