"""What of a step is bad: results without counterpart whose values reach, through none that has one, what differs.

Operations say how a program computes, and values what: whatever is called between two values that both programs have is
no difference. A result of one program has a counterpart if the other has, anywhere in the step, one of the same count
and statistics up to rounding, in whatever order and shape.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from math import dist, hypot, isfinite, sqrt

from backsight.traces.distance import norm, unit
from backsight.traces.pairing import VIEWS, plain_name
from backsight.traces.records import Operation, Trace
from backsight.traces.repeats import AddsUp, repeats

ROUNDED = 2e-5
"""The relative difference of norms within which float32 results count as the same: rounding, grown over a step."""

_EXTREMES = 1e-4
"""The same for the least and the largest element, relative to the size of the largest."""

_CONSTANTS = frozenset(
    (
        *("zeros", "ones", "full", "arange", "scalar_tensor", "zeros_like", "ones_like", "full_like", "new_zeros"),
        *("new_ones", "new_full", "lift_fresh_copy", "eye"),
    )
)
"""Operators whose results hold nothing of the training: what uses them differs, if anything does."""

_PARTS = VIEWS | {"neg", "clone", "copy", "as_strided", "diagonal", "unfold"}
"""Operators whose results hold what they are given, or a part of it."""

_DEEPEST = 50
"""How many of them are followed, one after the other."""

_CROWDED = 48
"""Values without counterpart of one size that are put together with others, to see what they are a part of."""

_UNITS = 8.0
"""Units in the last place that coarser dtypes may be off by."""


@dataclass(frozen=True)
class _Statistics:
    """What of a value does not depend on the order of its elements."""

    count: int
    norm: float
    total: float
    least: float
    most: float
    odd: tuple[int, int]
    step: float

    @property
    def telling(self) -> bool:
        """Whether the sum says anything: that of counts does not, nor one in which all terms cancel."""
        large = abs(self.total) > 1e-2 * self.norm * sqrt(self.count)
        constant = self.count > 1 and self.least == self.most
        return bool(self.step and large and not constant and abs(self.total - round(self.total)) > 1e-4)

    def near(self, other: _Statistics, within: float) -> bool:
        """Whether both may be the same numbers; the norms have been compared."""
        largest = max(abs(self.least), abs(self.most), abs(other.least), abs(other.most))
        extremes = max(_EXTREMES, within) * largest if within else 0.0
        return (
            self.odd == other.odd
            and abs(self.least - other.least) <= extremes
            and abs(self.most - other.most) <= extremes
            and abs(self.total - other.total) <= within * max(self.norm, other.norm) * sqrt(self.count)
        )


def _statistics(trace: Trace, number: int) -> _Statistics | None:
    value = trace.values[number]
    if value.mark < 0:
        return None
    row = trace.prints[value.mark]["stats"]
    count, mean = int(row["count"]), float(row["mean"])
    odd = int(row["nans"]), int(row["infs"])
    finite = count - sum(odd)
    if not finite:
        return _Statistics(count, 0.0, 0.0, 0.0, 0.0, odd, unit(value.dtype))
    norm = sqrt(max(0.0, float(row["m2"]) + finite * mean * mean))
    least, most = (float(row[name]) if isfinite(row[name]) else 0.0 for name in ("min", "max"))
    return _Statistics(count, norm, finite * mean, least, most, odd, unit(value.dtype))


class Values:
    """The values of a step of one trace, to be looked up by what does not depend on order and shape."""

    def __init__(self, trace: Trace, numbers: Iterable[int]):
        held: dict[int, list[tuple[float, int, _Statistics]]] = defaultdict(list)
        totals = []
        for number in numbers:
            if (each := _statistics(trace, number)) is not None:
                held[each.count].append((each.norm, number, each))
                if each.telling:
                    totals.append((abs(each.total), each.count))
        self._totals = sorted(totals)
        self._by_count = {count: sorted(each, key=lambda one: one[:2]) for count, each in held.items()}
        self._norms = {count: [one[0] for one in each] for count, each in self._by_count.items()}

    def alike(self, trace: Trace, number: int, within: float | None = None) -> int | None:
        """Return a value here that holds what a value of the other trace does, up to rounding."""
        wanted = _statistics(trace, number)
        if wanted is None or wanted.count not in self._by_count:
            return None
        widest = ROUNDED if within is None else within
        if within is None and wanted.step > 2.0**-20:
            widest = max(widest, _UNITS * wanted.step)
        held = self._by_count[wanted.count]
        place = bisect_left(self._norms[wanted.count], wanted.norm * (1 - widest))
        for size, other, each in held[place:]:
            if size > wanted.norm * (1 + 1.01 * widest) + 1e-30:
                return None
            if wanted.near(each, self._within(wanted, each) if within is None else within):
                return other
        return None

    def summed(self, trace: Trace, number: int) -> bool:
        """Whether a value here is the sum over parts of what a value of the other trace holds, or the reverse."""
        wanted = _statistics(trace, number)
        if wanted is None or not wanted.telling:
            return False
        room, sought = ROUNDED / 4 * abs(wanted.total), abs(wanted.total)  # a loss may be the negative of a likelihood
        place = bisect_left(self._totals, (sought - room, 0))
        for total, count in self._totals[place:]:
            if total > sought + room:
                return False
            if count != wanted.count and (count % wanted.count == 0 or wanted.count % count == 0):
                return True
        return False

    @staticmethod
    def _within(x: _Statistics, y: _Statistics) -> float:
        """Return what rounding explains: a dtype that both have may be coarse, and a cast is no rounding of both."""
        return max(ROUNDED, _UNITS * min(x.step, y.step)) if x.step or y.step else 0.0


@dataclass
class Flow:
    """A step of one trace: its operations, and which of its values have a counterpart in the other.

    parts: into how many parts it splits what the other computes at once, as micro-batches of a batch.
    bad: values without one that reach what differs through none that has.
    roots: the operations that made a bad value of others that are not, in order.
    sources: bad values that no operation of the step has made.
    """

    trace: Trace
    operations: dict[int, Operation]
    ok: frozenset[int]
    parts: int = 1
    bad: frozenset[int] = frozenset()
    roots: tuple[Operation, ...] = ()
    sources: tuple[int, ...] = ()

    def norm(self, numbers: Iterable[int]) -> float:
        """Return the norm of several values together."""
        return hypot(*(norm(self.trace, self.trace.values[each]) for each in numbers))

    def follow(self, ends: Iterable[int]) -> Flow:
        """Find what is bad, from what differs at the end on."""
        bad: set[int] = set()
        roots: dict[int, Operation] = {}
        sources: list[int] = []
        stack = [each for each in ends if each not in self.ok]
        while stack:
            number = stack.pop()
            if number in bad:
                continue
            bad.add(number)
            maker = self.operations.get(self.trace.values[number].maker)
            if maker is None:
                sources.append(number)
                continue
            taken = [each for each in maker.inputs if each not in maker.outputs and not self.passes(each)]
            before = [each for each in taken if self._origin(each) in self.operations]
            sources += [each for each in maker.inputs if each in taken and each not in before]
            if before:
                stack += before
            else:
                roots[maker.number] = maker
        self.bad = frozenset(bad).union(*map(self._behind, sources))
        self.sources = tuple(dict.fromkeys(sources))
        self.roots = tuple(roots[number] for number in sorted(roots))
        return self

    def changing(self, gradients: Iterable[int]) -> Operation | None:
        """Return the first operation between the backward pass and the optimizer that changes what both programs have.

        Clipping is such a one. What it makes of a gradient may be the gradient.
        """
        start = next((each.number for each in self.operations.values() if each.phase == "backward"), None)
        makers = [self.operations.get(self.trace.values[each].maker) for each in gradients]
        after = [
            each for each in makers if each and start is not None and each.phase != "backward" and each.number > start
        ]
        found = [each for each in after if self._takes_what_both_have(each)]
        return min(found, key=lambda each: each.number, default=None)

    def _takes_what_both_have(self, operation: Operation) -> bool:
        """Whether most of what an operation changes has a counterpart: fused weights have other gradients."""
        taken = operation.inputs[: len(operation.outputs)]
        return bool(taken) and 2 * sum(map(self.passes, taken)) >= len(taken)

    def passes(self, number: int) -> bool:
        """Whether a value has a counterpart, is a part of what has one, or says nothing."""
        for each in self._behind(number):
            value = self.trace.values[each]
            maker = self.operations.get(value.maker)
            if each in self.ok or value.mark < 0:
                return True
            if maker is not None and (plain_name(maker.op) in _CONSTANTS or value.dtype == "bool"):
                return True
        return False

    def _origin(self, number: int) -> int:
        return self.trace.values[self._behind(number)[-1]].maker

    def _behind(self, number: int) -> list[int]:
        """Return a value and what it is a part of, which accuses nothing that the whole does not."""
        found = [number]
        while len(found) < _DEEPEST:
            maker = self.operations.get(self.trace.values[found[-1]].maker)
            if maker is None or plain_name(maker.op) not in _PARTS or not maker.inputs or maker.inputs[0] in found:
                return found
            found.append(maker.inputs[0])
        return found


def flows(a: Trace, b: Trace, step: int) -> tuple[Flow, Flow]:
    """Return a step of both traces with the values that have a counterpart."""
    found = []
    for trace in (a, b):
        operations = {each.number: each for each in trace.operations if each.step == step}
        numbers = {number for each in operations.values() for number in (*each.inputs, *each.outputs)}
        numbers |= {each.value for each in trace.held if each.step == step}
        found.append((operations, numbers, Values(trace, numbers)))
    (ops_a, of_a, values_a), (ops_b, of_b, values_b) = found
    ok_a = frozenset(each for each in of_a if values_b.alike(a, each) is not None or values_b.summed(a, each))
    ok_b = frozenset(each for each in of_b if values_a.alike(b, each) is not None or values_a.summed(b, each))
    ok_a, ok_b = ok_a - _turned(a, b, step), ok_b - _turned(b, a, step)
    parts_a, whole_b = _joined(a, of_a - ok_a, b, of_b - ok_b)
    parts_b, whole_a = _joined(b, of_b - ok_b, a, of_a - ok_a)
    ok_a, ok_b = ok_a | parts_a | whole_a, ok_b | parts_b | whole_b
    in_a = repeats((a, ops_a, of_a - ok_a), (b, of_b), _adding_up(a, b))
    in_b = repeats((b, ops_b, of_b - ok_b), (a, of_a), _adding_up(b, a))
    return (
        Flow(a, ops_a, ok_a | in_a.parts | in_b.wholes, max(in_a.counts, default=1)),
        Flow(b, ops_b, ok_b | in_b.parts | in_a.wholes, max(in_b.counts, default=1)),
    )


def _adding_up(trace: Trace, other: Trace) -> AddsUp:
    """Return what tells whether the elements of values of a trace are, together, those of one of the other."""

    ours, theirs = cache(partial(_statistics, trace)), cache(partial(_statistics, other))

    def adds_up(some: Sequence[int], number: int) -> bool:
        parts, whole = [ours(each) for each in some], theirs(number)
        if whole is None or any(each is None or each.odd != whole.odd for each in parts):
            return False
        return _adds_up([each for each in parts if each is not None], whole)

    return adds_up


def _turned(a: Trace, b: Trace, step: int) -> set[int]:
    """Return weights of one dimension that B has in another order alone: of a bias, no other layout explains that."""
    ours, theirs = (
        {each.value for each in trace.held if (each.step, each.at, each.kind) == (step, "start", "weight")}
        for trace in (a, b)
    )
    held = [trace.prints[trace.values[each].mark] for trace, each in ((b, one) for one in theirs)
            if len(trace.values[each].shape) == 1 and trace.values[each].mark >= 0]  # fmt: skip
    found = set()
    for number in ours:
        value = a.values[number]
        if len(value.shape) == 1 and value.mark >= 0:
            mine = a.prints[value.mark]
            same = [each for each in held if all(each["stats"][name] == mine["stats"][name]
                    for name in ("count", "zeros", "min", "max"))]  # fmt: skip
            room = ROUNDED * norm(a, value)
            if same and not any(dist(map(float, mine["sketch"]), map(float, each["sketch"])) <= room for each in same):
                found.add(number)
    return found


def _joined(a: Trace, of_a: Iterable[int], b: Trace, of_b: Iterable[int]) -> tuple[set[int], set[int]]:
    """Return values of A that are, two or three together, one of B, as the gradients of fused weights; and those."""
    found: tuple[set[int], set[int]] = set(), set()
    parts = [(number, each) for number in of_a if (each := _statistics(a, number)) is not None and each.step]
    wholes = [(number, each) for number in of_b if (each := _statistics(b, number)) is not None and each.step]
    held = _Parts(parts)
    for number, whole in wholes:
        for some in held.together(whole):
            if _adds_up([one for _, one in some], whole):
                found[0].update(one for one, _ in some)
                found[1].add(number)
    return found


_Part = tuple[int, "_Statistics"]


class _Parts:
    """Values by count, to be looked up by their least element, which is that of the whole in one of them, and by norm.

    To try all pairs takes minutes where a recurrent network makes thousands of values of a few sizes.
    """

    def __init__(self, parts: Iterable[_Part]):
        by_count: dict[int, list[_Part]] = defaultdict(list)
        for part in parts:
            by_count[part[1].count].append(part)
        self._by_least = {count: sorted(mine, key=_least) for count, mine in by_count.items()}
        self._by_norm = {count: sorted(mine, key=_norm) for count, mine in by_count.items()}

    def together(self, whole: _Statistics) -> Iterator[tuple[_Part, ...]]:
        """Yield what may be the parts of a value: two of any sizes, or three of one size."""
        room = ROUNDED * whole.norm
        for count, mine in self._by_least.items():
            if whole.count - count not in self._by_norm and 3 * count != whole.count:
                continue
            first = bisect_left(mine, whole.least - room, key=_least)
            for part in mine[first : first + _CROWDED]:
                if part[1].least > whole.least + room:
                    break
                for other in self._left(whole, (part,), whole.count - count):
                    yield part, other
                for other in self._by_norm[count][:_CROWDED] if 3 * count == whole.count else ():
                    for last in self._left(whole, (part, other), count):
                        if len({part[0], other[0], last[0]}) == 3:
                            yield part, other, last

    def _left(self, whole: _Statistics, some: Sequence[_Part], count: int) -> Iterator[_Part]:
        """Yield values of a count whose norm is that of the whole without some of its parts."""
        mine, room = self._by_norm.get(count, []), ROUNDED * whole.norm
        taken = sum(one.norm**2 for _, one in some)
        lowest, highest = (sqrt(max(0.0, (whole.norm + each) ** 2 - taken)) for each in (-room, room))
        first = bisect_left(mine, lowest, key=_norm)
        for part in mine[first : first + _CROWDED]:
            if part[1].norm > highest:
                return
            yield part


def _least(part: _Part) -> float:
    return part[1].least


def _norm(part: _Part) -> float:
    return part[1].norm


def _adds_up(parts: Sequence[_Statistics], whole: _Statistics) -> bool:
    norm = hypot(*(each.norm for each in parts))
    total = sum(each.total for each in parts)
    room = ROUNDED * whole.norm
    return (
        sum(each.count for each in parts) == whole.count
        and abs(norm - whole.norm) <= room
        and abs(total - whole.total) <= room * sqrt(whole.count)
        and abs(min(each.least for each in parts) - whole.least) <= room
        and abs(max(each.most for each in parts) - whole.most) <= room
    )
