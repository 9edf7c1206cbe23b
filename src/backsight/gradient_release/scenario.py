"""The gradients with which small copies are stepped: even ones, and those that a training meets once in a while."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch

Factor = float | None
"""What a gradient is multiplied by; None where there is no gradient."""


class Jump(NamedTuple):
    """A count to which a counter is set: the farthest (0), or one that is behind it."""

    to: int
    leader: int


class Given(NamedTuple):
    """What one step is given.

    factors: of each parameter's gradient; jump: how the counters are set before; even: whether it is a step
    that every optimizer can take; setting: what a schedule has made of a setting of all groups.
    """

    factors: tuple[Factor, ...]
    jump: Jump | None = None
    even: bool = True
    setting: tuple[str, float] | None = None


EVEN = 7
"""How many steps `even_steps` has."""


def even_steps(places: Sequence[int]) -> list[Given]:
    """Return a few even steps, one in which a parameter has no gradient, and ones in which a group has none."""
    count, last = len(places), max(places)
    plain = Given((1.0,) * count)
    one_missing: list[Factor] = [1.0] * count
    one_missing[count // 2] = None
    behind = [None if place == last and last else 1.0 for place in places]
    if not last:  # a single group: the first half of it
        behind = [None if at < count // 2 else 1.0 for at in range(count)]
    return [plain, plain, plain, Given(tuple(one_missing)), Given(tuple(behind)), Given(tuple(behind)), plain]


def rare_steps(places: Sequence[int]) -> list[Given]:
    """Return steps with a spike, with gradients near zero, with zeros, large ones, and at last NaN."""
    count = len(places)
    rest = (1.0,) * (count - 1)
    return [
        Given((1e4, *rest), even=False),
        Given((1e-12,) * count, even=False),
        Given((*rest, 0.0), even=False),
        Given((1e4,) * count, even=False),
        Given((1.0,) * count, even=False),
        Given((math.nan, *rest), even=False),
        Given((1.0,) * count, even=False),
    ]


def at_counts(places: Sequence[int], counts: Sequence[int], leaders: int) -> list[Given]:
    """Return three steps from each of these counts on, of each counter."""
    plain = Given((1.0,) * len(places))
    jumps = [Jump(count, leader) for count in counts for leader in range(min(leaders, 2))]
    return [each for jump in jumps for each in (plain._replace(jump=jump), plain, plain)]


def at_settings(places: Sequence[int], thresholds: Sequence[float], most: int) -> list[Given]:
    """Return steps with settings that a schedule may come to: no learning rate, and ones beside these fractions.

    Of a momentum, or the first beta, the greatest fractions are taken, of a learning rate the smallest.
    """
    rates = {0.0, *_beside([*thresholds[:most], *thresholds[-1:]])}
    settings = [("lr", rate) for rate in sorted(rates)]
    settings += [(key, value) for key in ("momentum", "betas") for value in _beside(thresholds[-most // 2 :])]
    return [Given((1.0,) * len(places), even=False, setting=setting) for setting in settings]


def _beside(fractions: Sequence[float]) -> list[float]:
    """Return a number below and one above each fraction, which stay between 0 and 1."""
    return sorted({number for each in fractions for number in (each * 0.97, min(each * 1.03, (1 + each) / 2))})


def gradients_of(given: Given, parameters: Sequence[torch.Tensor], number: int) -> list[torch.Tensor | None]:
    """Return the gradients of a step."""
    generator = torch.Generator().manual_seed(1000 + number)
    found: list[torch.Tensor | None] = []
    for factor, each in zip(given.factors, parameters, strict=True):
        drawn = torch.randn(each.shape, generator=generator) * 0.1
        found.append(None if factor is None else (drawn * factor).to(each.device, each.dtype))
    return found
