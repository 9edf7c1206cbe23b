"""`FirstOrder`: what another derivative of one step does to the gradient along one direction, without another forward.

<gradient, w> is the sum over steps of what they do along w, and the pullback is linear: one step altered adds the inner
product of the gradient that arrives there with the change of its derivative. A candidate for which that is not what is
missing need not be tried; one for which it is may still be another.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import torch

from backsight.verification.steps.pull import Pull
from backsight.verification.steps.step import Step

NEARLY = 1e-5
"""How closely a candidate has to fit."""

Alter = Callable[[Step, int], torch.Tensor | None]
Runs = Mapping[Hashable, Sequence[Step]]
Edge = tuple[Step, int]
"""A step and the number of an operand: one way on which a gradient goes back."""


class FirstOrder:
    """A forward as it ran, what its steps do along one direction, and the gradients that arrive at them.

    Args:
        runs: the steps of forward, each with its runs; of a loop nothing can be said.
        x: the input of forward, and a direction.
        outputs: of forward, with their graph.
        draws: gradients of the outputs.
        missing: what the given gradient says along the direction beyond the right one, and the size of what it says.
    """

    def __init__(
        self,
        runs: Runs,
        x: tuple[torch.Tensor, torch.Tensor],
        outputs: Sequence[torch.Tensor],
        draws: Sequence[Sequence[torch.Tensor]],
        missing: tuple[float, float],
    ):
        self._runs, self._x, self._outputs, self._draws = runs, x, outputs, draws
        self._missing, self._size = missing

    @cached_property
    def _steps(self) -> dict[Hashable, Step]:
        return {key: runs[0] for key, runs in self._runs.items() if len(runs) == 1 and runs[0].result.requires_grad}

    @cached_property
    def arriving(self) -> list[dict[Hashable, torch.Tensor]]:
        """The gradient that arrives at each step that ran once, for each draw."""
        steps = self._steps
        results = [each.result for each in steps.values()]
        return [dict(zip(steps, _gradients(self._outputs, results, us), strict=True)) for us in self._draws]

    @cached_property
    def _along(self) -> dict[Hashable, tuple[list[Any], torch.Tensor]]:
        """What the arguments of a step do along the direction, and its result."""
        steps = self._steps
        tensors = {id(each): each for step in steps.values() for each in (step.result, *step.args) if _carries(each)}
        pushed = dict(zip(tensors, _pushed(list(tensors.values()), *self._x), strict=True))
        return {
            key: ([pushed.get(id(each)) for each in step.args], pushed[id(step.result)]) for key, step in steps.items()
        }

    def may_be(self, key: Hashable, alter: Alter, number: int) -> bool:
        """Whether one step altered may make the gradient. True of a step in a loop, where only another forward tells.

        Raises:
            Exception: what the alteration raises.
        """
        if key not in self._along:
            return True
        step, u = self._steps[key], self.arriving[0][key]
        args, result = self._along[key]
        made = _pulled(step, alter, number, u)
        if made is None:
            return False
        slopes = [inner(g, t) for g, t in zip(made, args, strict=True) if g is not None and t is not None]
        here = inner(u, result)
        return self._fits(sum(slopes) - here, max(map(abs, (*slopes, here))))

    @cached_property
    def _edges(self) -> list[tuple[Edge, torch.Tensor]]:
        """Each operand of each step, and what the step does along the direction by that alone."""
        found = []
        for key, (args, _) in reversed(self._along.items()):  # the nearest one to the output tells most
            step = self._steps[key]
            for number, tangent in enumerate(args):
                operand = step.operand(number)
                if tangent is not None and operand is not None:
                    with torch.no_grad():
                        found.append(((step, number), Pull(step, number, operand).push(tangent)))
        return found

    def slopes(self) -> Iterator[tuple[Hashable, int, torch.Tensor]]:
        """Yield each operand of each step, with what each of its entries does along the direction through that step."""
        for (step, number), _ in self._edges:
            live = step.args[number]
            arriving = Pull(step, number, live)(self.arriving[0][step.key])
            tangent = self._along[step.key][0][number]
            if not live.is_complex():
                yield step.key, number, arriving * tangent

    def explains(self, change: float) -> bool:
        """Whether a change of the gradient along the direction is what is missing."""
        return self._fits(change, abs(change))

    def branches(self, key: Hashable, alter: Alter, number: int) -> Iterator[Edge]:
        """Yield the operands such that a step altered may make the gradient on the way through them alone.

        Raises:
            Exception: what the alteration raises.
        """
        if key not in self._along:
            return
        changed = self._changed(0, key, alter, number)
        for (step, operand), does in self._edges:
            if step.key in changed and self._fits(slope := inner(changed[step.key], does), abs(slope)):
                yield step, operand

    def through(self, x: torch.Tensor, key: Hashable, alter: Alter, number: int, edge: Edge) -> list[torch.Tensor]:
        """Return the change of the gradient of `x`, one for each draw, if that is so."""
        step, operand = edge
        live, found = step.args[operand], []
        pull = Pull(step, operand, live)
        for draw in range(len(self._draws)):
            arriving = pull(self._changed(draw, key, alter, number)[step.key])
            (change,) = _gradients([live], [x], [arriving])
            found.append(change)
        return found

    def _changed(self, draw: int, key: Hashable, alter: Alter, number: int) -> dict[Hashable, torch.Tensor]:
        """What an altered step adds to the gradients that arrive at those before it."""
        step, u = self._steps[key], self.arriving[draw][key]
        made, plain = _pulled(step, alter, number, u), _pulled(step, lambda each, _: _again(each), 0, u)
        if made is None or plain is None:
            return {}
        live: list[torch.Tensor] = []
        changes: list[torch.Tensor] = []
        for tensor, a, b in zip(step.args, made, plain, strict=True):
            if _carries(tensor) and (a is not None or b is not None):
                live.append(tensor)
                zeros = torch.zeros_like(tensor)
                changes.append((zeros if a is None else a) - (zeros if b is None else b))
        before = {each.key: each.result for each in self._steps.values() if each is not step}
        found = torch.autograd.grad(live, list(before.values()), changes, retain_graph=True, allow_unused=True)
        return {key: each for key, each in zip(before, found, strict=True) if each is not None}

    def _fits(self, slope: float, size: float) -> bool:
        return abs(slope - self._missing) <= NEARLY * (abs(self._missing) + 1e-3 * max(size, self._size))


def _pulled(step: Step, alter: Alter, number: int, u: torch.Tensor) -> list[torch.Tensor | None] | None:
    """Return the gradients of the arguments of a step that is altered, None for those that have none."""
    with torch.enable_grad():
        args = tuple(each.detach().requires_grad_() if _carries(each) else each for each in step.args)
        made = alter(replace(step, args=args), number)
    if made is None:
        return None
    carrying = [each for each in args if _carries(each)]
    if not made.requires_grad or not carrying:
        return [None for _ in args]
    found = iter(torch.autograd.grad(made, carrying, u, allow_unused=True))
    return [next(found) if _carries(each) else None for each in args]


def _again(step: Step) -> torch.Tensor:
    made: torch.Tensor = step.function(*step.args, **step.kwargs)
    return made


def _gradients(
    outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor], us: Sequence[torch.Tensor]
) -> list[torch.Tensor]:
    pairs = [(y, u) for y, u in zip(outputs, us, strict=True) if y.requires_grad]
    if not pairs or not inputs:
        return [torch.zeros_like(x) for x in inputs]
    ys, given = zip(*pairs, strict=True)
    found = torch.autograd.grad(ys, inputs, given, retain_graph=True, allow_unused=True)
    return [torch.zeros_like(x) if g is None else g for x, g in zip(inputs, found, strict=True)]


def _carries(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad


def _pushed(tensors: list[torch.Tensor], x: torch.Tensor, direction: torch.Tensor) -> list[torch.Tensor]:
    """Return what tensors do where their input moves along a direction: the transpose of the transpose."""
    us = [torch.zeros_like(each).requires_grad_() for each in tensors]
    (pulled,) = torch.autograd.grad(tensors, x, us, create_graph=True)
    found = torch.autograd.grad(pulled, us, direction, allow_unused=True)
    return [torch.zeros_like(u) if each is None else each for u, each in zip(us, found, strict=True)]


def inner(a: torch.Tensor, b: torch.Tensor) -> float:
    """The real part of <a, b>."""
    return float((a.conj() * b).real.sum()) if a.is_complex() or b.is_complex() else float((a * b).sum())
