"""Micro-batches: values that one program computes in parts, one after the other, and the other all at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

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
    wholes: dict[int, list[int]] = defaultdict(list)
    for number in whole[1]:
        if whole[0].values[number].mark >= 0:
            wholes[_count(whole[0], number)].append(number)
    parts: set[int] = set()
    found: set[int] = set()
    counts: set[int] = set()
    for group in groups:
        size = _count(trace, group[0])
        for count in range(2, min(len(group), _MOST) + 1):
            if len(group) % count == 0 and count * size in wholes:
                for some in _each(group, count):
                    if (
                        match := next((each for each in wholes[count * size] if adds_up(some, each)), None)
                    ) is not None:
                        parts.update(some)
                        found.add(match)
                        counts.add(count)
    for group, count in ((group, count) for group in groups for count in counts if len(group) % count == 0):
        for some in _each(group, count):
            for number in wholes.get(_count(trace, group[0]), ()):
                if _is_sum(trace, some, whole[0], number):
                    parts.update(some)
                    found.add(number)
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


def _is_sum(trace: Trace, some: Sequence[int], other: Trace, number: int) -> bool:
    """Whether the sum of values, or their mean, is another value, as losses and gradients of micro-batches are."""
    added = np.sum([trace.prints[trace.values[each].mark]["sketch"] for each in some], axis=0)
    wanted, size = other.prints[other.values[number].mark]["sketch"], norm(other, other.values[number])
    if not size:
        return False
    return any(float(np.linalg.norm(each - wanted)) <= _ROUNDED * size for each in (added, added / len(some)))
