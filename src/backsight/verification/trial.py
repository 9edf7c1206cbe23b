"""`tried`: the test <u, J v> = <Jᵀ u, v> of one operation, cheap where all is right and careful where it is not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from backsight.verification.differences import SMALLEST_SIZE, Slope, central, slope, step_for
from backsight.verification.directions import Vector, drawn, equal, inner, size_of
from backsight.verification.documented import direction_of
from backsight.verification.errors import CannotTest
from backsight.verification.point import Point

ROUGH = 1e-6
"""Agreement, relative to the size of the product, at which one central difference of double precision settles it."""

FINE = 1e-5
"""Disagreement from which on a gradient is wrong, once the noise of the differences is known to be smaller."""

FAINT = 1e-11
"""A disagreement this small, relative to the sizes of input and output, is the rounding of a derivative of zero."""

LOOSE = 0.01
"""Agreement from which on it is no settlement by itself, in half precision."""

NOISE = 20
"""How many times the disagreement of two differences their mistake may be."""

GROUPS = 8
"""More inputs than this are moved together, in so many groups."""

MOST = 0.5
"""But no more of the size of the product: a wrong sign is seen in half precision too."""

PARTINGS, PART = 4, 0.01
"""How often grad_output is parted in two, and how much of a disagreement the gradients may not add up by."""

FORWARD = "by forward mode"

DETACHED = (
    "its backward agrees with forward mode, but not with differences of its forward: something in it is detached, or "
    "takes symmetric matrices only"
)
"""A function of the program's may detach what it should not; where it means to, nothing tells."""

_NEARBY = ((0.05, 0), (0.05, 1), (0.05, -1), (1e-3, 0), (1e-3, 1), (1e-3, -1))
"""How far and to which side to go from a kink or a singular point: to both sides, up, or down."""


@dataclass(frozen=True, eq=False)
class Pull:
    """What the backward made of one random grad_output at one point: `gradients` are one for each wanted input.

    `repeated` are the gradients of a second backward through the same graph; None where that raised `complaint`.
    """

    point: Point
    us: list[torch.Tensor]
    gradients: list[torch.Tensor | None]
    repeated: list[torch.Tensor | None] | None
    complaint: Exception | None = None

    def along(self, number: int, direction: torch.Tensor) -> float:
        """<Jᵀ u, v> for input `number`."""
        gradient = self.gradients[number]
        return 0.0 if gradient is None else inner(gradient, direction)


@dataclass(frozen=True, eq=False)
class Wrong:
    """A gradient that is not Jᵀ u: along one direction it gives `found` where the forward says `slope`."""

    number: int
    pull: Pull
    found: float
    slope: Slope

    @property
    def off(self) -> float:
        """By how much the two differ; infinitely where what it gives is not finite."""
        gap = abs(self.found - self.slope.value)
        return gap if gap == gap else math.inf


@dataclass(frozen=True, eq=False)
class Trial:
    """What the test of one operation found.

    `wrong` are the gradients that are wrong, `error` what the backward raised, `unclear` the inputs that could not be
    judged, each with the reason. `how` says by what means the others were.
    """

    pull: Pull | None
    wrong: list[Wrong] = field(default_factory=list)
    error: Exception | None = None
    unclear: dict[int, str] = field(default_factory=dict)
    how: str = ""


def tried(point: Point, generator: torch.Generator) -> Trial:
    """Test the backward of an operation at a point; go near it for what cannot be judged there.

    Raises:
        CannotTest: if no gradient can be judged at this point, nor nearby.
    """
    us = [drawn(each, generator) for each in point.outputs]
    try:
        pull = pulled(point, us)
    except CannotTest:
        raise
    except Exception as error:  # whatever the user's backward raises
        return Trial(None, error=error)
    doubtful = _doubtful(pull, generator)
    if not doubtful:
        return Trial(pull, how=_precision(point))
    return _carefully(pull, doubtful, generator)


def pulled(point: Point, us: list[torch.Tensor]) -> Pull:
    """Run the backward twice with the same grad_output."""
    gradients = point.pulled(us)
    try:
        return Pull(point, us, gradients, point.pulled(us))
    except CannotTest:
        raise
    except Exception as error:  # whatever a user's backward raises when it runs again
        point.only_once = True
        return Pull(point, us, gradients, None, error)


def _doubtful(pull: Pull, generator: torch.Generator) -> list[int]:
    """The inputs whose gradients one central difference does not show to be right; of many inputs all at once."""
    numbers = [k for k, each in enumerate(pull.point.inputs) if each.numel()]
    groups = [numbers[k::GROUPS] for k in range(GROUPS)] if len(numbers) > GROUPS else [[k] for k in numbers]
    return sorted(k for group in groups if not agree(pull, group, generator) for k in group)


def agree(pull: Pull, numbers: list[int], generator: torch.Generator) -> bool:
    """Whether one central difference settles that these gradients are right. False if anything is not finite."""
    point = pull.point
    step = min(step_for(point, k) for k in numbers)
    directions = {k: direction_of(point, k, generator) * weight for k, weight in _weights(pull, numbers).items()}
    found = sum(pull.along(k, direction) for k, direction in directions.items())
    try:
        value, size = central(point, directions, pull.us, step)
    except CannotTest:
        raise
    except Exception:  # the function leaves its domain
        return False
    allowed = ROUGH if point.eps < 1e-10 else 5 * float(point.eps ** (2 / 3))
    if allowed > LOOSE and abs(value) <= allowed * size:
        return False  # nearly at right angles to the gradient: even a wrong sign could not be told
    return abs(value - found) <= allowed * max(size, abs(value))


def _weights(pull: Pull, numbers: list[int]) -> dict[int, float]:
    """How far to move each of several inputs, so that none drowns out another whose gradient is small."""
    if len(numbers) == 1:
        return {numbers[0]: 1.0}
    sizes = {k: 0.0 if (g := pull.gradients[k]) is None else float(torch.linalg.vector_norm(g)) for k in numbers}
    least = min((size for size in sizes.values() if size > 0), default=1.0)
    return {k: max(least / size, 1e-3) if size > 0 else 1.0 for k, size in sizes.items()}


def _carefully(pull: Pull, doubtful: Sequence[int], generator: torch.Generator) -> Trial:
    if _is_unsteady(pull.point):
        why = "its forward gives other values when it is called again with the same input and seed"
        return Trial(pull, unclear=dict.fromkeys(doubtful, why))
    pull = _finite(pull)
    wrong: list[Wrong] = []
    unclear: dict[int, str] = {}
    hows = {_precision(pull.point)}
    for number in doubtful:
        verdict = _judged(pull, number, generator)
        if isinstance(verdict, str):
            near = _nearby(pull, number, generator)
            verdict, hows = (near, hows | {"at a point nearby"}) if not isinstance(near, str) else (verdict, hows)
        if isinstance(verdict, str) and _by_tangents(pull, number, generator) is None:
            verdict, hows = None, hows | {FORWARD}
        if isinstance(verdict, Wrong) and _is_outside(verdict, generator):
            verdict = DETACHED if pull.point.operation.differentiates else None
            hows |= set() if verdict else {FORWARD}
        if isinstance(verdict, str):
            unclear[number] = verdict
        elif isinstance(verdict, Wrong):
            wrong.append(verdict)
    return Trial(pull, wrong, unclear=unclear, how=", ".join(sorted(hows)))


def _is_outside(wrong: Wrong, generator: torch.Generator) -> bool:
    """Whether an operation of PyTorch takes its input from a subset, such as the symmetric matrices.

    A difference leaves it, and then says nothing; forward mode does not.
    """
    if wrong.pull.point.operation.definition is not None:
        return False
    return _by_tangents(wrong.pull, wrong.number, generator) is None


def _judged(pull: Pull, number: int, generator: torch.Generator) -> Wrong | str | None:
    """Return what is wrong, None if nothing is, or why it cannot be told.

    A small mistake may by chance be at right angles to a direction, but hardly to two.
    """
    return _judged_along(pull, number, generator) or _judged_along(pull, number, generator)


def _judged_along(pull: Pull, number: int, generator: torch.Generator) -> Wrong | str | None:
    point = pull.point
    gradient = pull.gradients[number]
    direction = direction_of(point, number, generator)
    known = slope(point, number, direction, pull.us)
    if not known.settled:
        return "differences of its forward do not settle: it is coarse, jumps or is singular at these values"
    found = pull.along(number, direction)
    if gradient is not None and not bool(torch.isfinite(gradient).all()):
        if point.operation.definition is not None and _all_finite(point.outputs):
            return Wrong(number, pull, found, known)
        return "its gradient is infinite or NaN at these values"
    off = abs(found - known.value)
    allowed = min(max(FINE, NOISE * known.eps**0.6), 0.25)
    scale = max(known.size, abs(known.value))
    if off <= min(NOISE * known.error, MOST * scale) + allowed * scale + FAINT * known.natural:
        return None
    if not known.size and off * known.step <= _unseen(pull, number):
        return None
    if known.kink:
        return "its forward has a kink at these values"
    return Wrong(number, pull, found, known)


def _unseen(pull: Pull, number: int) -> float:
    """What a forward that saturates does not show: it is smaller than the rounding of numbers of its input's size."""
    return pull.point.eps * size_of(pull.point.inputs[number]) * max(float(u.norm()) for u in pull.us)


def is_rounding(wrong: Wrong, generator: torch.Generator) -> bool:
    """Whether the gradients of two parts of grad_output do not add up: small terms are lost beside large ones."""
    pull = wrong.pull
    whole = pull.gradients[wrong.number]
    for _ in range(PARTINGS if whole is not None else 0):
        masks = [torch.rand(u.shape, generator=generator).to(u.device) < 0.5 for u in pull.us]
        rest: Any = whole
        for side in (True, False):
            us = [u.where(mask == side, 0.0) for u, mask in zip(pull.us, masks, strict=True)]
            part = pulled(pull.point, us).gradients[wrong.number]
            rest = rest if part is None else rest - part
        if float(torch.linalg.vector_norm(rest)) > PART * wrong.off:
            return True
    return False


def _is_unsteady(point: Point) -> bool:
    """Whether the forward says something else each time: then no difference of it means anything."""
    first, second = point.moved_together({}), point.moved_together({})
    return any(not equal(a, b) and bool((a == a).all()) for a, b in zip(first, second, strict=True))


def _finite(pull: Pull) -> Pull:
    """Ask no output for a gradient that is infinite, as masked logits are."""
    point = pull.point
    if _all_finite(point.outputs):
        return pull
    us = [u.where(torch.isfinite(each), 0.0) for u, each in zip(pull.us, point.outputs, strict=True)]
    return pulled(point, us)


def _nearby(pull: Pull, number: int, generator: torch.Generator) -> Wrong | str | None:
    """Judge at a point beside this one, where a function with kinks is smooth and a singular one is not singular."""
    for far, side in _NEARBY:
        inputs = [_beside(each, far, side, generator) for each in pull.point.inputs]
        try:
            point = pull.point.at(inputs)
            if not _are_comparable(point.outputs, pull.point.outputs):
                continue
            verdict = _judged(_finite(pulled(point, pull.us)), number, generator)
        except CannotTest:
            raise
        except Exception:  # the function leaves its domain there; another side may do
            continue
        if not isinstance(verdict, str):
            return verdict
    return "nor nearby"


def _are_comparable(here: Vector, there: Vector) -> bool:
    """Whether outputs are of the same shapes as others, and finite where those are."""
    return len(here) == len(there) and all(
        a.shape == b.shape and not bool((torch.isfinite(b) & ~torch.isfinite(a)).any())
        for a, b in zip(here, there, strict=True)
    )


def _all_finite(tensors: Vector) -> bool:
    return all(bool(torch.isfinite(each).all()) for each in tensors)


def _beside(tensor: torch.Tensor, far: float, side: int, generator: torch.Generator) -> torch.Tensor:
    by = drawn(tensor, generator) * (far * max(size_of(tensor), SMALLEST_SIZE))
    if side and not tensor.is_complex():
        by = by.abs() * side
    return tensor + by


def _by_tangents(pull: Pull, number: int, generator: torch.Generator) -> str | None:
    """Acquit by forward-mode differentiation where differences do not tell. It accuses nobody: at a kink the two modes
    may choose different slopes, and both be right.
    """
    direction = direction_of(pull.point, number, generator)
    try:
        pushed = pull.point.tangent(number, direction)
    except CannotTest:
        raise
    except Exception:  # PyTorch has no formula for it, or a Function's own `jvp` raises what it wants
        return "no forward mode"
    value = sum(inner(u, tangent) for u, tangent in zip(pull.us, pushed, strict=True))
    return None if abs(value - pull.along(number, direction)) <= FINE * abs(value) else "unequal"


def _precision(point: Point) -> str:
    return {2.0**-52: "float64"}.get(point.eps, f"to about {point.eps ** (2 / 3):.0e}")
