"""`Replay`: a forward run again step by step, with some steps altered, and the gradient that autograd then returns."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import torch

from backsight.verification.steps.alteration import Alteration
from backsight.verification.steps.first_order import FirstOrder, inner
from backsight.verification.steps.step import Step, Stepping
from backsight.verification.steps.telling import named

Forward = Callable[[torch.Tensor], Sequence[torch.Tensor]]
"""Runs a forward with one input given; returns its outputs."""

MOST_STEPS = 60
OPERANDS = 3

PRECISE = (torch.float64, torch.complex128)
"""In others differences do not tell."""

IDLE = 1e-10
_LARGEST = ("max", "amax", "maximum", "scatter_reduce", "segment_reduce", "min", "amin")


class Replay:
    """A forward, the gradient that was returned for it, and what autograd makes of it with some steps altered."""

    def __init__(
        self,
        forward: Forward,
        x: torch.Tensor,
        draws: Any,
        given: Sequence[torch.Tensor],
        is_given: Any,
        arguments: Mapping[str, torch.Tensor],
        end: float,
        cut: frozenset[Hashable] = frozenset(),
    ):
        self._cut = cut
        self._forward, self._x, self._draws, self._is_given, self._end = forward, x, draws, is_given, end
        self._all_given, self._given, self._arguments = given, given[0], arguments
        plain = Stepping(cut=cut)
        outputs, leaf = run_stepwise(plain, forward, x)
        self._outputs, self._leaf = outputs, leaf
        self._right = [gradient(outputs, leaf, us) for us in draws]
        self._runs = plain.runs
        self._names: dict[Hashable, str] = {}
        self._in_order = (*plain.constants.values(), *plain.steps.values())
        # The last ones first: what is computed from others is nearer to what somebody calls a step.
        self._steps = dict(reversed(list(plain.steps.items())[-MOST_STEPS:]))
        self._constants = dict(list(plain.constants.items())[-MOST_STEPS:])
        self._integers = dict(list(plain.integers.items())[-MOST_STEPS:])

    @cached_property
    def idle(self) -> frozenset[Hashable]:
        """The steps that carry no gradient though they could, as that maximum which only keeps exp from overflowing."""
        largest = max(float(u.abs().max()) for u in self._draws[0] if u.numel())
        arriving = self._first_order.arriving
        return frozenset(
            key
            for key in arriving[0]
            if self._steps.get(key) is not None
            and self._steps[key].name in _LARGEST
            and all(float(each[key].abs().max()) <= IDLE * largest for each in arriving)
        )

    @cached_property
    def _first_order(self) -> FirstOrder:
        x = self._x
        direction = torch.randn(x.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        direction = direction.to(x) * (float(x.abs().max()) or 1.0)

        given, right = (inner(each, direction) for each in (self._given, self._right[0]))
        missing = inner(self._given - self._right[0], direction)
        return FirstOrder(
            self._runs, (self._leaf, direction), self._outputs, self._draws, (missing, max(abs(given), abs(right)))
        )

    def _may_be(self, key: Hashable, alter: Any, number: int) -> bool:
        """Whether it is worth another forward to alter a step so."""
        if time.thread_time() > self._end:
            return False
        try:
            return self._x.dtype not in PRECISE or self._first_order.may_be(key, alter, number)
        except Exception:  # an operation may refuse what it is altered to
            return False

    def _named(self, step: Step) -> str:
        if step.key not in self._names:
            self._names[step.key] = named(step, self._in_order)
        return self._names[step.key]

    def _known(self) -> Iterator[tuple[str, torch.Tensor]]:
        """What a backward may have at hand: the input and the results of steps."""
        yield from ((f"`{name}`", each) for name, each in self._arguments.items())
        for step in self._steps.values():
            yield f"the result of {self._named(step)}", step.result
        for step in self._constants.values():
            yield f"the result of {self._named(step)}", step.result

    def _operands(self) -> Iterator[tuple[Hashable, int]]:
        for key, step in self._steps.items():
            for number in range(min(OPERANDS, max(1, len(step.args)))):
                yield key, number

    def _gradients(self, keys: Sequence[Hashable], alter: Any, number: int) -> list[torch.Tensor] | None:
        """Return the gradients with some steps altered; None where they cannot be."""
        if time.thread_time() > self._end:
            return None
        try:
            return list(self._altered(keys, alter, number))
        except Exception:  # an operation may refuse what it is altered to
            return None

    def _altered(
        self, keys: Sequence[Hashable], alter: Any, number: int, of_input: bool = False
    ) -> Iterator[torch.Tensor]:
        """Yield the gradients with some steps altered, or what these steps are given: the input itself."""
        leaf = self._x.detach().clone().requires_grad_()
        beside = (leaf - leaf.detach()) if of_input else 0
        stepping = Stepping(frozenset(keys), lambda step: _plus(alter(step, number), beside), self._cut)
        outputs, leaf = run_stepwise(stepping, self._forward, self._x, leaf)
        if not stepping.altered:
            raise ValueError("the alteration applies to none of these steps")
        yield from (gradient(outputs, leaf, us) for us in self._draws)

    def _applies(self, alteration: Alteration, key: Hashable, number: int) -> bool:
        """Whether a step can be altered so: that costs less than another forward."""
        if time.thread_time() > self._end:
            return False
        try:
            with torch.enable_grad():
                return alteration.alter(self._steps[key], number) is not None
        except Exception:  # an operation may refuse what it is altered to
            return False

    def _fits_altered(self, keys: Sequence[Hashable], alter: Any, number: int, of_input: bool = False) -> bool:
        """Whether some steps altered give what is given; the second draw is only asked for if the first fits."""
        if time.thread_time() > self._end:
            return False
        try:
            found = self._altered(keys, alter, number, of_input)
            return all(self._is_given(k, each) for k, each in enumerate(found))
        except Exception:  # an operation may refuse what it is altered to
            return False

    def _fits(self, gradients: list[torch.Tensor] | None) -> bool:
        return gradients is not None and all(self._is_given(k, each) for k, each in enumerate(gradients))

    def _factor(
        self, lacking: Sequence[torch.Tensor], whole: Sequence[torch.Tensor], same: bool = False
    ) -> float | None:
        """What the part that is lacking would have to be multiplied by, as the gradient that is given tells."""
        part = whole[0] - lacking[0]
        size = float((part.conj() * part).real.sum())
        if not size:
            return None
        factor = float((part.conj() * (self._given - lacking[0])).real.sum()) / size
        return None if abs(factor) < 1e-6 or (abs(factor - 1) < 1e-6 and not same) else factor


def _plus(altered: torch.Tensor | None, beside: Any) -> torch.Tensor | None:
    return altered if altered is None or isinstance(beside, int) else altered + beside


def run_stepwise(
    stepping: Stepping, forward: Forward, x: torch.Tensor, leaf: torch.Tensor | None = None
) -> tuple[Sequence[torch.Tensor], torch.Tensor]:
    leaf = x.detach().clone().requires_grad_() if leaf is None else leaf
    with torch.enable_grad(), stepping:
        return forward(leaf.clone()), leaf


def gradient(outputs: Sequence[torch.Tensor], x: torch.Tensor, us: Sequence[torch.Tensor]) -> torch.Tensor:
    pairs = [(each, u) for each, u in zip(outputs, us, strict=True) if each.requires_grad]
    if not pairs:
        return torch.zeros_like(x)
    (gradient,) = torch.autograd.grad(
        [y for y, _ in pairs], x, [u for _, u in pairs], retain_graph=True, allow_unused=True
    )
    return torch.zeros_like(x) if gradient is None else gradient
