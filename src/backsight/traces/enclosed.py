"""Formulas of equal value: operations that only one program has, whose results go into nothing but what both have."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from math import sqrt

from backsight.traces.distance import norm
from backsight.traces.pairing import plain_name
from backsight.traces.records import Operation, Trace

_ADDS = frozenset(("add", "sub", "rsub", "cat", "stack", "lerp", "addcmul"))
"""Operators whose result may agree because what differs is small beside the rest."""

_COUNTS = 1e-2
"""The share of such a result from which on a term must count."""


class Enclosed:
    """Tells of the operations of a step which are a part of another way to compute the same.

    known: whether both programs have a value.
    """

    def __init__(self, trace: Trace, operations: Sequence[Operation], known: Callable[[int], bool]):
        self._trace, self._known = trace, known
        self._takers: dict[int, list[Operation]] = defaultdict(list)
        for each in operations:
            if each.op != "module" and each.phase != "optimizer":
                for number in set(each.inputs):
                    self._takers[number].append(each)

    def __call__(self, root: Operation) -> bool:
        """Whether all that a pass computes of the results of an operation ends in what the other program has too."""
        stack = [each for each in root.outputs if not self._known(each)]
        seen: set[int] = set()
        while stack:
            number = stack.pop()
            if number in seen:
                continue
            seen.add(number)
            takers = [each for each in self._takers[number] if (each.phase == "backward") == (root.phase == "backward")]
            if not takers and root.phase == "backward":
                return False  # a gradient
            for taker in takers:
                made = [each for each in taker.outputs if each != number]
                if not all(self._tells(taker, number, each) for each in made if self._known(each)):
                    return False
                stack += [each for each in made if not self._known(each)]
        return True

    def _tells(self, taker: Operation, given: int, made: int) -> bool:
        """Whether a result that both have says something of what it was made of."""
        sizes = [norm(self._trace, self._trace.values[each]) for each in (given, made)]
        if not sizes[1]:
            return False
        if plain_name(taker.op) not in _ADDS:
            return True
        counts = [max(1, self._count(each)) for each in (given, made)]
        return sizes[0] / sqrt(counts[0]) >= _COUNTS * sizes[1] / sqrt(counts[1])

    def _count(self, number: int) -> int:
        mark = self._trace.values[number].mark
        return int(self._trace.prints[mark]["stats"]["count"]) if mark >= 0 else 0
