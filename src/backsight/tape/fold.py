"""Repetitions: equal groups of rows that follow each other are shown once, with how often they come."""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from backsight.tape import repeats
from backsight.tape.repeats import SPARED, Ints, least
from backsight.tape.rows import Rows

ROUNDS = 4
"""How often folds that depend on one another are looked for, before all that do are given up."""

TRIES = 16
"""How many starts are tried for each stretch, those at which least is carried along first."""

_NUMBER = re.compile(r"\d{1,15}")


@dataclass(frozen=True)
class Fold:
    """`period` rows from `start` on that come `count` times in succession."""

    start: int
    period: int
    count: int

    @property
    def body(self) -> range:
        """The rows of the first repetition: those that are shown."""
        return range(self.start, self.start + self.period)

    @property
    def last(self) -> range:
        """The rows of the last repetition."""
        return range(self.stop - self.period, self.stop)

    @property
    def stop(self) -> int:
        return self.start + self.period * self.count


@dataclass(frozen=True, eq=False)
class Folded:
    """What is left of the rows: `rows` are their numbers before folding, `inputs` positions in `rows`.

    `depth` says in how many folds each row stands, `opening` and `closing` which folds begin at and end after it.
    """

    rows: list[int]
    inputs: list[tuple[int, ...]]
    depth: list[int]
    opening: dict[int, tuple[Fold, ...]]
    closing: dict[int, tuple[Fold, ...]]


def find(rows: Rows) -> tuple[Fold, ...]:
    """Return the repetitions in `rows`, outer ones before those within their first repetition.

    Rows are equal when everything that is shown of them is: operation, shape, saved bytes and state, module and leaves
    (whose numbers may count up from one repetition to the next), and where their inputs come from.
    """
    texts = [(module, *chips) for module, chips in zip(rows.module, rows.chips, strict=True)]
    degrees = map(len, rows.inputs)
    shown = zip(rows.type, rows.shape, rows.saved, rows.state, map(_pattern, texts), degrees, strict=True)
    return repetitions(list(shown), rows.inputs, list(map(_numbers, texts)), sorted(rows.roots))


@lru_cache(maxsize=65536)
def _pattern(texts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(_NUMBER.sub("#", text) for text in texts)


@lru_cache(maxsize=65536)
def _numbers(texts: tuple[str, ...]) -> tuple[int, ...]:
    return tuple(int(number) for text in texts for number in _NUMBER.findall(text))


def repetitions(
    labels: Sequence[Hashable],
    inputs: Sequence[Sequence[int]],
    numbers: Sequence[Sequence[int]] | None = None,
    roots: Sequence[int] = (),
    spared: int = SPARED,
) -> tuple[Fold, ...]:
    """Return the repetitions in a sequence of labelled rows: the widest first, then those beside and within it.

    An input must come from the same place in its own repetition or in the one before it, or, for all repetitions
    alike, from one row before the first, or each from a repetition of its own of another fold: one loop goes through
    what another has made. What follows may consume from the last repetition, or from all of them.

    ```python
    repetitions("sasasa", [(), (0,), (1,), (2,), (3,), (4,)])   # (Fold(start=0, period=2, count=3),)
    ```

    Args:
        labels: what is seen of each row; rows with equal labels have equally many inputs and numbers.
        inputs: for each row, the earlier rows that it consumes.
        numbers: for each row, the numbers in its names: from one repetition to the next some may go up, in equal steps.
        roots: rows whose results are needed afterwards.
        spared: how many rows a fold must leave out.
    """
    search = _Search(labels, inputs, numbers or [()] * len(labels), roots, spared)
    candidates = repeats.stretches(search.rows, spared)
    for _ in range(ROUNDS):
        found = _found(search, len(labels), candidates, spared)
        agreed = search.agreed(found)
        if len(agreed) == len(found):
            break
        search.may_pair = frozenset(agreed)  # each of the others waits for another fold that is not there
    else:
        search.may_pair = frozenset()
        agreed = {f: f for f in _found(search, len(labels), candidates, spared)}
    return tuple(sorted(agreed.values(), key=lambda f: (f.start, -f.period)))


def _found(search: _Search, rows: int, candidates: Ints, spared: int) -> list[Fold]:
    """Return the widest repetition, and those beside and within it."""
    found: list[Fold] = []
    regions = [(0, rows, candidates)]
    while regions:
        low, high, candidates = regions.pop()
        fold, candidates = search.widest(low, high, candidates)
        if fold is not None:
            found.append(fold)
            parts = (low, fold.start), (fold.start, fold.start + fold.period), (fold.stop, high)
            regions += [(a, b, candidates) for a, b in parts if b - a > least(1, spared)]
    return found


class _Search:
    """The sequence as columns, and what may still be spent on looking at it."""

    def __init__(
        self,
        labels: Sequence[Hashable],
        inputs: Sequence[Sequence[int]],
        numbers: Sequence[Sequence[int]],
        roots: Sequence[int],
        spared: int,
    ):
        self.may_pair: frozenset[Fold] | None = None
        """The folds that may take inputs from, or give results to, repetitions of another fold; None for any."""
        self._spared = spared
        index: dict[Hashable, int] = {}
        label = np.array([index.setdefault(x, len(index)) for x in labels], np.int64)
        start, flat = _flat(inputs)
        consumer = np.repeat(np.arange(len(labels)), np.diff(start))
        self.rows = repeats.Sequence(label, start, flat, consumer)
        self._number_start, self._numbers = _flat(numbers)
        # Edges by source. A root has a consumer of its own after the end.
        sources = np.concatenate([flat, np.array(roots, np.int64)])
        consumers = np.concatenate([consumer, np.arange(len(roots)) + len(labels)])
        order = np.argsort(sources, kind="stable")
        self._sources, self._consumers = sources[order], consumers[order]
        # How many results are open above each row, and for how many uses: a loop is best cut where it carries least.
        n = len(labels)
        last = np.arange(n)
        np.maximum.at(last, flat, consumer)
        self._open = np.arange(n + 1) - _sums(last, n)
        self._uses = _sums(flat, n) - _sums(consumer, n)
        # Long stretches that no fold fits are rare and cost a look at each start, so patience is limited: what is then
        # left unfolded is still shown rightly.
        self._patience = 16 * len(labels) + 500_000

    def widest(self, low: int, high: int, candidates: Ints) -> tuple[Fold | None, Ints]:
        """Return the fold that covers most between `low` and `high`, and the candidates that remain there."""
        period = candidates[:, 2]
        candidates = np.stack([np.maximum(candidates[:, 0], low), np.minimum(candidates[:, 1], high), period], 1)
        while self._patience > 0:
            start, stop, period = candidates.T
            cover = (stop - start) // period * period
            keep = cover - period >= least(period, self._spared)
            candidates, cover, period = candidates[keep], cover[keep], period[keep]
            if not len(candidates):
                break
            best = np.lexsort((period, -cover))[0]
            a, b, p = candidates[best].tolist()
            fold = self._fit(a, b, p)
            if fold is not None:
                return fold, candidates
            candidates[best, 0] += p
        return None, candidates

    def _fit(self, start: int, stop: int, period: int) -> Fold | None:
        """Return the widest fold that begins within the first `period` rows of a stretch; of equals, the best cut."""
        begin = np.arange(start, min(start + period, stop - period - least(period, self._spared) + 1))
        most = (stop - begin) // period
        best = None
        for k in np.lexsort((self._uses[begin + period], self._open[begin + period], -most))[:TRIES].tolist():
            if best and most[k] <= best.count:
                break
            count = self._count(int(begin[k]), period, int(most[k]))
            if (count - 1) * period < least(period, self._spared):
                self._patience -= stop - start + 500
            elif best is None or count > best.count:
                best = Fold(int(begin[k]), period, count)
        return best

    def _count(self, start: int, period: int, most: int) -> int:
        """Return how many repetitions from `start` on are equal in every respect."""
        pairs = self.may_pair is None or any((f.start, f.period) == (start, period) for f in self.may_pair)
        count = self._by_inputs(start, period, most, pairs)
        count = self._by_numbers(start, period, count) if count > 1 else 1
        return self._by_consumers(start, period, count, pairs) if count > 1 else 1

    def _by_inputs(self, start: int, period: int, count: int, pairs: bool) -> int:
        a, b = self.rows.start[[start, start + period]]
        if a == b:
            return count
        source = self.rows.inputs[a : a + (b - a) * count].reshape(count, b - a)
        earlier, source = source[:-1], source[1:]
        begin = start + period * np.arange(1, count)[:, None]
        good = (source >= begin - period) & (source - earlier == period)
        good |= (source < start) & (source == earlier)
        # What a loop carries along comes from before it in the first repetition, from the first one in the second.
        good[0] |= (source[0] >= start) & (source[0] < start + period) & (earlier[0] < start)
        if pairs:
            label, step = self.rows.labels, source - earlier
            good |= (source < start) & (step == step[0]) & (label[source] == label[earlier])
        return _before_first_false(good.all(1))

    def _by_numbers(self, start: int, period: int, count: int) -> int:
        a, b = self._number_start[[start, start + period]]
        if a == b:
            return count
        number = self._numbers[a : a + (b - a) * count].reshape(count, b - a)
        step = number[1] - number[0]
        if len(np.unique(step[step != 0])) > 1:
            return 1
        good = number == number[0] + np.arange(count)[:, None] * step
        return _before_first_false(good[1:].all(1))

    def _by_consumers(self, start: int, period: int, count: int, pairs: bool) -> int:
        while count > 1:
            stop = start + period * count
            a, b = np.searchsorted(self._sources, [start, stop])
            source, consumer = self._sources[a:b] - start, self._consumers[a:b]
            outside = consumer >= stop
            early = outside & (source < period * (count - 1))
            if not early.any():
                break
            # One consumer of the same row in each repetition, such as a stack of all results, is as good.
            edges = np.unique(
                np.stack([consumer[outside] * period + source[outside] % period, source[outside]]), axis=1
            )
            many, times = np.unique(edges[0], return_counts=True)
            complete = np.isin(edges[0], many[times == count]) | (edges[1] >= period * (count - 1))
            if pairs:
                complete |= self._is_handed_on(edges[1], edges[0] // period, period, count, complete)
            if complete.all():
                break
            count = int(edges[1][~complete].min()) // period + 1
        return count

    def _is_handed_on(
        self, source: Ints, consumer: Ints, period: int, count: int, done: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """Return which edges are of a row whose consumers are equally far apart, one for each repetition."""
        first, second = (np.flatnonzero(~done & (source // period == k)) for k in (0, 1))
        if not len(first) or len(first) != len(second) or (source[first] != source[second] - period).any():
            return np.zeros(len(source), bool)
        step = consumer[second] - consumer[first]
        rounds = np.arange(count)[:, None]
        wanted = np.stack([consumer[first] + rounds * step, source[first] + rounds * period]).reshape(2, count, -1)
        size = period * count
        there = np.isin(wanted[0] * size + wanted[1], consumer * size + source)
        n = len(self.rows)
        of_rows = (wanted[0] >= 0).all(0) & (wanted[0] < n).all(0)
        label = self.rows.labels[np.clip(wanted[0], 0, n - 1)]
        good = there.all(0) & of_rows & (label == label[0]).all(0)
        return np.isin(consumer * size + source, (wanted[0] * size + wanted[1])[:, good])

    def agreed(self, found: Sequence[Fold]) -> dict[Fold, Fold]:
        """Return folds by what is left of them where loops hand on to one another, without those that nothing is of.

        What one repetition hands on to one of another loop stays visible in both or in none.
        """
        left = {f: f for f in found}
        rows = {f: self._handed(f) for f in found}
        changed = True
        while changed:
            changed = False
            for f, now in list(left.items()):
                first, last = (now.start - f.start) // f.period, (now.stop - f.start) // f.period
                inside = np.ones(last - first, bool)
                for column in rows[f]:
                    others = (g for g in left.values() if g.period == abs(column[1] - column[0]))
                    held = [(g.start <= column[first:last]) & (column[first:last] < g.stop) for g in others]
                    inside &= max(held, key=np.count_nonzero, default=np.zeros(last - first, bool))
                if not inside.all():
                    changed = True
                    kept = np.flatnonzero(inside)
                    left[f] = Fold(now.start + int(kept[0]) * f.period, f.period, len(kept)) if len(kept) else now
                    if len(kept) < 2 or kept[-1] - kept[0] >= len(kept) or self._is_little(left[f]):
                        del left[f]
        return left

    def _is_little(self, f: Fold) -> bool:
        return (f.count - 1) * f.period < least(f.period, self._spared)

    def _handed(self, f: Fold) -> list[Ints]:
        """Return rows of other loops, one for each repetition: those that it takes from, and that take from it."""
        a, b = self.rows.start[[f.start, f.start + f.period]]
        sources = self.rows.inputs[a : a + (b - a) * f.count].reshape(f.count, -1)
        handed = [column for column in sources.T if column.max() < f.start and column[0] != column[1]]
        for row in f.body:
            once, again = self._outside(row, f.stop), self._outside(row + f.period, f.stop)
            if f.count > 2 or len(once) == len(again):
                for one, two in zip(sorted(once - again), sorted(again - once), strict=False):
                    handed.append(one + np.arange(f.count) * (two - one))
        return handed

    def _outside(self, row: int, stop: int) -> set[int]:
        """Return the rows from `stop` on that consume a row."""
        a, b = np.searchsorted(self._sources, [row, row + 1])
        return {c for c in self._consumers[a:b].tolist() if stop <= c < len(self.rows)}


def _flat(nested: Sequence[Sequence[int]]) -> tuple[Ints, Ints]:
    """Return where each inner sequence starts, and all of them in one column."""
    start = np.concatenate([[0], np.cumsum(np.fromiter(map(len, nested), np.int64, len(nested)))])
    return start, np.array([x for inner in nested for x in inner], np.int64)


def _sums(rows: Ints, n: int) -> Ints:
    """Return how many of `rows` lie above each of `n` rows, and above the end."""
    return np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n))])


def _before_first_false(good: NDArray[np.bool_]) -> int:
    """Return 1 + how many of the comparisons with the next repetition hold from the first on."""
    return 1 + (len(good) if good.all() else int(np.argmin(good)))


def folded(inputs: Sequence[Sequence[int]], folds: Sequence[Fold]) -> Folded:
    """Leave out all repetitions but the first; what the last one fed is then fed by the first."""
    stands_for = np.arange(len(inputs))
    for f in reversed(folds):  # inner folds first
        stands_for[f.start : f.stop] = np.tile(stands_for[f.body.start : f.body.stop], f.count)
    rows = np.flatnonzero(stands_for == np.arange(len(inputs))).tolist()
    position = {row: k for k, row in enumerate(rows)}
    kept = [position[row] for row in stands_for.tolist()]
    opening: dict[int, tuple[Fold, ...]] = {}
    closing: dict[int, tuple[Fold, ...]] = {}
    change = [0] * (len(rows) + 1)
    for f in folds:
        first, last = kept[f.start], kept[f.start + f.period - 1]
        opening[first] = (*opening.get(first, ()), f)
        closing[last] = (f, *closing.get(last, ()))
        change[first] += 1
        change[last + 1] -= 1
    return Folded(
        rows=rows,
        inputs=[tuple([kept[j] for j in inputs[row]]) for row in rows] if folds else [tuple(x) for x in inputs],
        depth=np.cumsum(change[:-1]).tolist(),
        opening=opening,
        closing=closing,
    )
