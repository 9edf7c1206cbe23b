"""The numbers of the axes of every live tensor, and which of them are one.

A tensor is known by its address and a weak reference without a callback: nothing runs when it dies, and PyTorch's own
references are shared. The entries of the dead are swept out after so many calls.

This is asked at every call of the first passes of a training. So what keeps its shape goes past all rules (`carry`),
and what a rule says of shapes and positions alone is asked once for each (`arrange`).
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from backsight.tracing.kept_axes import PLAIN, Axes, Given, Rule, applied

_SWEPT_AFTER = 256
"""Tensors that are met anew before the entries of the dead are looked for: with more of them Python's collector of
garbage would think that much is kept, and look at all that there is."""

_MOST_PLANS = 4096


class _Plan(NamedTuple):
    """What a rule does with the axes that it is given, which count from 1 on through both tensors: which one each axis
    of the result is, or 0; and which are one."""

    out: Axes
    pairs: tuple[tuple[int, int], ...]


class AxisNumbers:
    """Numbers for axes, by tensor: 0 for those of size 1, and for those of which nothing is known."""

    def __init__(self) -> None:
        self._parents: list[int] = [0]
        self._known: dict[int, tuple[weakref.ref[torch.Tensor], Axes, torch.Size]] = {}
        self._sweep_at = _SWEPT_AFTER
        self._plans: dict[tuple[Any, ...], _Plan] = {}

    def fresh(self) -> int:
        """Return the number of a new axis."""
        self._parents.append(len(self._parents))
        return len(self._parents) - 1

    def of(self, tensor: torch.Tensor) -> Axes:
        """Return the axes of a tensor: new ones if it is met for the first time."""
        held = self._known.get(id(tensor))
        if held is not None and held[0]() is tensor and len(held[1]) == tensor.dim():
            return held[1]
        shape = tensor.shape
        numbers = tuple([self.fresh() if n > 1 else 0 for n in shape])
        self.put(tensor, numbers, shape)
        return numbers

    def put(self, tensor: torch.Tensor, numbers: Axes, shape: torch.Size) -> None:
        """Note the axes of a tensor, which has this shape."""
        self._known[id(tensor)] = weakref.ref(tensor), numbers, shape
        if len(self._known) >= self._sweep_at:
            self._sweep()

    def carry(self, args: Sequence[Any], result: torch.Tensor, joins: bool) -> bool:
        """Give a result the axes of the first argument, where that is known and has its shape; return whether it is so.

        With `joins` there may be a second tensor, whose axes are those of the first where it has as many. Where it
        might be aligned with other axes than the first, nothing is done.
        """
        known, one = self._known, args[0]
        held = known.get(id(one))
        if held is None or held[0]() is not one:
            return False
        _, numbers, shape = held
        made = result.shape
        if made != shape:
            return False
        if joins and type(args[1]) in PLAIN:
            beside = known.get(id(args[1]))
            if beside is None or beside[0]() is not args[1]:
                return False
            others = beside[1]
            if len(others) != len(numbers):
                if others and len(numbers) > 2 and beside[2][0] == shape[0]:
                    return False
            elif others != numbers:
                numbers = self._joined(numbers, others)
        if result is not one:
            self.put(result, numbers, made)
        return True

    def _joined(self, numbers: Axes, others: Axes) -> Axes:
        parents = self._parents
        for one, other in zip(numbers, others, strict=True):
            if one and other and parents[one] != parents[other]:
                self.unify(one, other)
        return numbers if 0 not in numbers else tuple([a or b for a, b in zip(numbers, others, strict=True)])

    def arrange(self, rule: Rule, args: Sequence[Any], result: torch.Tensor, of_two: bool) -> bool:
        """Give a result the axes that a rule says it has of the first argument, or `of_two`; return whether it is so.

        The other arguments have to be whole numbers; of two tensors the rule is to look at nothing else.
        """
        one: Any = args[0]
        two: Any = args[1] if of_two else None
        if type(one) not in PLAIN or one is two or result is one:
            return False
        held, before, made = self._known.get(id(one)), one.shape, result.shape
        is_known = held is not None and held[0]() is one and len(held[1]) == len(before)
        numbers = held[1] if held is not None and is_known else self.of(one)
        if of_two:
            if type(two) not in PLAIN:
                return False
            given = (0, *numbers, *self.of(two))
            key = (rule, before, made, two.shape)
        else:
            for each in args[1:]:
                if type(each) is not int:
                    return False
            given = (0, *numbers)
            key = (rule, before, made, args[1:] if type(args) is tuple else tuple(args[1:]))
        plan = self._plans.get(key)
        if plan is None:
            if len(self._plans) >= _MOST_PLANS:
                self._plans.clear()
            plan = self._plans[key] = _planned(rule, args, made)
        for left, right in plan.pairs:
            if given[left] != given[right]:
                self.unify(given[left], given[right])
        self.put(result, tuple([given[at] for at in plan.out]), made)
        return True

    def unify(self, one: int, other: int) -> None:
        """Take two axes for one."""
        one, other = self.root(one), self.root(other)
        if one and other and one != other:
            self._parents[max(one, other)] = min(one, other)

    def root(self, axis: int) -> int:
        """Return the number that stands for all that are one with this one."""
        parents = self._parents
        while parents[axis] != axis:
            parents[axis] = axis = parents[parents[axis]]
        return axis

    def forget(self) -> None:
        """Forget all tensors; which axes are one is still known."""
        self._known.clear()

    def _sweep(self) -> None:
        known = self._known
        for key in list(known):
            entry = known.get(key)
            if entry is not None and entry[0]() is None and known.get(key) is entry:
                known.pop(key, None)
        self._sweep_at = 2 * len(self._known) + _SWEPT_AFTER


class _Positions:
    """Axes by their positions, in place of numbers."""

    def __init__(self, first: torch.Tensor) -> None:
        self._first = first
        self.pairs: list[tuple[int, int]] = []

    def of(self, tensor: torch.Tensor) -> Axes:
        begin = 1 if tensor is self._first else 1 + self._first.dim()
        return tuple(range(begin, begin + tensor.dim()))

    def fresh(self) -> int:
        raise ValueError("a new axis is no matter of positions")

    def unify(self, one: int, other: int) -> None:
        self.pairs.append((one, other))


def _planned(rule: Rule, args: Sequence[Any], made: torch.Size) -> _Plan:
    positions = _Positions(args[0])
    out = applied(rule, Given(positions, args, {}, made))
    if out is None or len(out) != len(made):
        out = (0,) * len(made)
    return _Plan(tuple(at if n > 1 else 0 for at, n in zip(out, made, strict=True)), tuple(positions.pairs))
