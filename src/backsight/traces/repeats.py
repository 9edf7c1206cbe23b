"""Micro-batches: values that one program computes in parts, one after the other, and the other all at once."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import hypot

import numpy as np
from numpy.typing import NDArray

from backsight.traces.distance import norm
from backsight.traces.pairing import plain_name
from backsight.traces.records import Operation, Trace

_MOST = 64
"""Parts of a batch that are looked for."""

_ROUNDED = 2e-5
"""The relative difference within which a sum of parts is the whole."""

AddsUp = Callable[[Sequence[int], int], bool]


@dataclass(frozen=True)
class Repeats:
    """What one program (`parts`) computes in parts, and the other (`wholes`) at once: the numbers of values.

    counts: into how many parts.
    """

    parts: frozenset[int] = frozenset()
    wholes: frozenset[int] = frozenset()
    counts: frozenset[int] = frozenset()


def repeats(
    parted: tuple[Trace, Mapping[int, Operation], Iterable[int]], whole: tuple[Trace, Iterable[int]], adds_up: AddsUp
) -> Repeats:
    """Find what is a part of a batch in one trace, and the batch in the other: among the values that are given.

    adds_up: whether the elements of some values of the first are, together, those of a value of the second.
    """
    trace, operations, numbers = parted
    groups = _groups(trace, operations, numbers)
    wholes = _Wholes(*whole)
    parts: set[int] = set()
    found: set[int] = set()
    counts: set[int] = set()
    for group in groups:
        size = _count(trace, group[0])
        for count in range(2, min(len(group), _MOST) + 1):
            if len(group) % count == 0 and count * size in wholes:
                for some in _each(group, count):
                    together = hypot(*(norm(trace, trace.values[each]) for each in some))
                    candidates = wholes.of_norm(count * size, together)
                    if (match := next((each for each in candidates if adds_up(some, each)), None)) is not None:
                        parts.update(some)
                        found.add(match)
                        counts.add(count)
    for group, count in ((group, count) for group in groups for count in counts if len(group) % count == 0):
        for some in _each(group, count):
            if sums := wholes.sums(_count(trace, group[0]), _added(trace, some), count):
                parts.update(some)
                found.update(sums)
    return Repeats(frozenset(parts), frozenset(found), frozenset(counts))


def _groups(trace: Trace, operations: Mapping[int, Operation], numbers: Iterable[int]) -> list[list[int]]:
    """Return values of one size that the same line makes again and again, or that come from outside, in order."""
    found: dict[Hashable, list[int]] = defaultdict(list)
    for number in sorted(numbers):
        value = trace.values[number]
        if value.mark < 0 or value.name:
            continue
        maker = operations.get(value.maker)
        key: Hashable = value.dtype, value.shape
        if maker is not None:
            place = maker.outputs.index(number) if number in maker.outputs else -1
            made = maker.phase, plain_name(maker.op), maker.module, maker.place.file, maker.place.line
            key = (*made, place, value.dtype, value.shape)
        found[key].append(number)
    return [each for each in found.values() if len(each) > 1]


def _each(group: Sequence[int], count: int) -> Iterator[Sequence[int]]:
    """Yield the parts of each value: a line makes as many for each part of the batch."""
    several = len(group) // count
    for first in range(several):
        yield group[first::several]


def _count(trace: Trace, number: int) -> int:
    return int(trace.prints[trace.values[number].mark]["stats"]["count"])


def _added(trace: Trace, some: Sequence[int]) -> NDArray[np.float64]:
    added: NDArray[np.float64] = np.sum([trace.prints[trace.values[each].mark]["sketch"] for each in some], axis=0)
    return added


class _Wholes:
    """Values by count, to be looked up by norm and by projection: of thousands of parts, each is looked for."""

    def __init__(self, trace: Trace, numbers: Iterable[int]):
        held: dict[int, list[tuple[float, int]]] = defaultdict(list)
        for number in numbers:
            if trace.values[number].mark >= 0:
                held[_count(trace, number)].append((norm(trace, trace.values[number]), number))
        self._trace = trace
        self._by_count = {count: sorted(mine) for count, mine in held.items()}
        self._sketches: dict[int, NDArray[np.float64]] = {}

    def __contains__(self, count: int) -> bool:
        return count in self._by_count

    def of_norm(self, count: int, size: float) -> Iterator[int]:
        """Yield the values of a count that have a norm."""
        mine, room = self._by_count[count], 2 * _ROUNDED * size
        for each, number in mine[bisect_left(mine, (size - room, -1)) :]:
            if each > size + room:
                return
            yield number

    def sums(self, count: int, added: NDArray[np.float64], parts: int) -> list[int]:
        """Return the values of a count that are a sum, or its mean, as losses and gradients of micro-batches are."""
        mine = self._by_count.get(count, [])
        if not mine:
            return []
        if count not in self._sketches:
            marks = [self._trace.values[number].mark for _, number in mine]
            self._sketches[count] = np.stack([self._trace.prints[each]["sketch"] for each in marks])
        room = _ROUNDED * np.array([size for size, _ in mine])
        apart = [np.linalg.norm(self._sketches[count] - each, axis=1) for each in (added, added / parts)]
        near = (np.minimum(*apart) <= room) & (room > 0)
        return [mine[place][1] for place in np.flatnonzero(near)]
