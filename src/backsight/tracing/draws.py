"""Random numbers that each step draws again, because something seeds the generator in between.

After a draw, the state of its generator tells where in its sequence it is: steps that go on from one another never
leave it in the same state twice. A state that was put back after the draw, as `fork_rng` does, is told apart: it is
another one when the backward begins.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch

from backsight.tape import is_captured, is_jit_traced
from backsight.tracing.program import innermost
from backsight.tracing.sites import Sites

_PASSES = 8
"""Backwards before which draws are noted. The first of them comes after what is drawn once, as initial weights."""

_MOST = 4096
_PERIODS = (1, 2)
"""Backwards after which the same numbers come again: one, or the two of a step that trains two networks."""

_NUMBERS = frozenset(
    {"rand", "randn", "randint", "normal", "rand_like", "randn_like", "randint_like", "bernoulli", "multinomial"}
    | {"poisson", "uniform_", "normal_", "bernoulli_", "exponential_", "log_normal_", "cauchy_", "geometric_"}
)
DRAWS = _NUMBERS | {"randperm", "random_", "dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "rrelu"}
"""What moves a generator on. An order, or a seed, may be the same on purpose."""


@dataclass(frozen=True, slots=True)
class _Draw:
    """A draw at a site: on which device, and the state it left the generator in; `counts` if it tells by itself."""

    site: int
    device: torch.device
    state: int
    counts: bool


class Draws:
    """The draws before each of the first backwards, and the states of the generators when these began."""

    def __init__(self, sites: Sites) -> None:
        self._sites = sites
        self._now: list[_Draw] = []
        self._passes: list[tuple[list[_Draw], dict[torch.device, int]]] = []
        self.is_open = True

    def note(self, name: str, kwargs: Mapping[str, Any], result: Any, frame: FrameType) -> None:
        """Note a call of one of `DRAWS` that has been made."""
        user = innermost(frame)
        if user is None or kwargs.get("generator") is not None or type(result) is not torch.Tensor or is_jit_traced():
            return
        state = _state(result.device)
        if state is None or not result.numel():
            return
        if len(self._now) >= _MOST:
            self.is_open = False
            return
        counts = name in _NUMBERS and torch.is_grad_enabled()
        self._now.append(_Draw(self._sites.of_call(user, name, frame), result.device, state, counts))

    def passed(self) -> None:
        """Note that a backward begins."""
        devices = {each.device for each in self._now}
        states = {device: state for device in devices if (state := _state(device)) is not None}
        self._passes.append((self._now, states))
        self._now = []
        self.is_open = len(self._passes) < _PASSES

    def again(self) -> tuple[int, ...]:
        """Return the sites that drew the same numbers before all of the backwards but the first, as far as noted."""
        if self.is_open or len(self._passes) < _PASSES:
            return ()
        later = self._passes[1:]
        sites = dict.fromkeys(each.site for drawn, states in later for each in _lasting(drawn, states))
        return tuple(site for site in sites if any(_repeats(site, later, period) for period in _PERIODS))


def _lasting(drawn: list[_Draw], states: Mapping[torch.device, int]) -> list[_Draw]:
    """Return the draws from generators that were still as the last of them had left them."""
    last = {each.device: each.state for each in drawn}
    return [each for each in drawn if each.counts and states.get(each.device) == last[each.device]]


def _repeats(site: int, passes: list[tuple[list[_Draw], dict[torch.device, int]]], period: int) -> bool:
    made = [tuple(each.state for each in _lasting(*one) if each.site == site) for one in passes]
    some = all(any(made[at : at + period]) for at in range(len(made) - period + 1))
    return some and all(one == other for one, other in zip(made, made[period:], strict=False))


def _state(device: torch.device) -> int | None:
    """Return what stands for the state of a device's own generator; None where it cannot be asked."""
    if device.type == "cpu":
        generator = torch.default_generator
    elif device.type == "cuda" and not is_captured():
        generator = torch.cuda.default_generators[device.index or 0]
    else:
        return None
    return hash(generator.get_state().numpy().tobytes())
