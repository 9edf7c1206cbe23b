"""Repetitions in the tree of groups: equal items that follow each other are kept once.

Two items are equal when everything that is shown of them is, at any depth: operations, shapes, bytes, names (whose
numbers may count up), the status of leaves, marks, and where inputs come from.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from backsight.drawing.groups import Group, Item, end_row, first_row, inner_groups
from backsight.tape.fold import Fold, repetitions
from backsight.tape.rows import Rows

_NUMBER = re.compile(r"\d{1,15}")
WORTH = 4
"""How many operations a repetition must leave out; one with a group in it is always worth its frame."""


@dataclass(frozen=True)
class _Look:
    """What is shown of an item, as one number for all that look alike, and the numbers in its names."""

    label: int
    numbers: tuple[int, ...]


def fold(top: Group, rows: Rows, wears: dict[int, str], shown: Sequence[Hashable]) -> NDArray[np.int64]:
    """Fold the tree `top` in place; return for each row the row by which it is then shown.

    Args:
        top: the tree of `rows`.
        rows: the operations.
        wears: the modules whose names single rows wear.
        shown: for each row, whatever a picture shows of it that `rows` does not hold.
    """
    looks = _Looks(rows, wears, shown)
    looks.learn(top)
    consumers = _consumers(rows.inputs)
    stands_for = np.arange(len(rows))
    waiting = deque([top])
    while waiting:
        group = waiting.popleft()
        folds = _folds(group, looks, consumers)
        for f in folds:
            _map_copies(group.items, f, stands_for)
        if folds:
            group.items = _applied(group, group.items, 0, folds, wears)
        waiting += _modules_below(group)
    while (stands_for[stands_for] != stands_for).any():
        stands_for = stands_for[stands_for]
    return stands_for


class _Looks:
    """The looks of rows and groups; equal looks have equal labels."""

    def __init__(self, rows: Rows, wears: dict[int, str], shown: Sequence[Hashable]):
        self.rows, self.wears, self.shown = rows, wears, shown
        self._labels: dict[Hashable, int] = {}
        self._groups: dict[Group, _Look] = {}

    def learn(self, top: Group) -> None:
        """Look at every group below `top`, the innermost first."""
        for group in reversed(list(inner_groups(top))):
            if group is not top and group.parent is not None:
                name = below(group.path, group.parent.path)
                items = [self.of(item, group) for item in group.items]
                wiring = _wiring(self.rows.inputs, group.start, group.stop)
                label = self._label((_pattern(name), tuple(look.label for look in items), wiring))
                numbers = sum((look.numbers for look in items), _numbers(name))
                self._groups[group] = _Look(label, numbers)

    def of(self, item: Item, group: Group) -> _Look:
        """Return the look of an item of `group`."""
        if not isinstance(item, int):
            return self._groups[item]
        rows = self.rows
        texts = (below(self.wears.get(item, group.path), group.path), *rows.chips[item])
        pattern, numbers = tuple(map(_pattern, texts)), sum(map(_numbers, texts), ())
        seen = (rows.type[item], rows.shape[item], rows.saved[item], rows.state[item])
        return _Look(self._label((seen, pattern, len(rows.inputs[item]), self.shown[item])), numbers)

    def _label(self, seen: Hashable) -> int:
        return self._labels.setdefault(seen, len(self._labels))


def below(path: str, parent: str) -> str:
    """Return `path` as seen from within `parent`: `attn.c_fc` for `h.0.attn.c_fc` in `h.0`."""
    return path[len(parent) + 1 :] if parent and path.startswith(f"{parent}.") else path if path != parent else ""


@lru_cache(maxsize=65536)
def _pattern(text: str) -> str:
    return _NUMBER.sub("#", text)


@lru_cache(maxsize=65536)
def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, _NUMBER.findall(text)))


def _consumers(inputs: Sequence[Sequence[int]]) -> list[list[int]]:
    consumers: list[list[int]] = [[] for _ in inputs]
    for row, sources in enumerate(inputs):
        for j in sources:
            consumers[j].append(row)
    return consumers


def _wiring(inputs: Sequence[Sequence[int]], start: int, stop: int) -> tuple[tuple[int, ...], ...]:
    """Return where the inputs of rows come from: counted from `start`, or which source from outside, below zero."""
    outside: dict[int, int] = {}
    return tuple(
        tuple(j - start if j >= start else -1 - outside.setdefault(j, len(outside)) for j in inputs[row])
        for row in range(start, stop)
    )


def _folds(group: Group, looks: _Looks, consumers: Sequence[Sequence[int]]) -> list[Fold]:
    """Return the repetitions among the items of `group`, by their positions, outer ones first."""
    items = group.items
    seen = [looks.of(item, group) for item in items]
    if len({look.label for look in seen}) == len(items):
        return []
    before, inputs = _inputs(group, looks.rows.inputs)
    after, needed = _needed(group, consumers)
    roots = [before + k for k, item in enumerate(items) if _has_root(item, looks.rows.roots)]
    labels: list[Hashable] = [("before", k) for k in range(before)]
    labels += [(look.label, len(sources)) for look, sources in zip(seen, inputs, strict=True)]
    labels += [("after", k) for k in range(after)]
    numbers = [(), *[()] * (before - 1)][:before] + [look.numbers for look in seen] + [()] * after
    wired = [()] * before + inputs + [tuple(before + k for k in sources) for sources in needed]
    nested = any(isinstance(item, Group) for item in items)
    found = repetitions(labels, wired, numbers, roots, spared=1 if nested else WORTH)
    found = tuple(f for f in found if f.count > 2 or not _is_fork(wired, f))
    folds = [Fold(f.start - before, f.period, f.count) for f in found]
    return [f for f in folds if _is_worth(items, f)]


def _is_fork(wired: Sequence[Sequence[int]], f: Fold) -> bool:
    """Whether what follows consumes the first copy: then the copies stand side by side, and two of them say so best."""
    return any(j in f.body for sources in wired[f.stop :] for j in sources)


def _is_worth(items: Sequence[Item], f: Fold) -> bool:
    body = items[f.start : f.start + f.period]
    return (f.count - 1) * f.period >= WORTH or any(isinstance(item, Group) for item in body)


def _has_root(item: Item, roots: Iterable[int]) -> bool:
    return any(first_row(item) <= r < end_row(item) for r in roots)


def _inputs(group: Group, inputs: Sequence[Sequence[int]]) -> tuple[int, list[tuple[int, ...]]]:
    """Return how many rows outside feed the group, and what feeds each item: those by number, then the items."""
    position = [0] * (group.stop - group.start)
    for k, item in enumerate(group.items):
        for row in range(first_row(item), end_row(item)):
            position[row - group.start] = k
    outside: dict[int, int] = {}
    sources: list[list[int]] = []
    for item in group.items:
        begin, end = first_row(item), end_row(item)
        several = [j for row in range(begin, end) for j in inputs[row] if j < begin]
        sources.append(several if isinstance(item, int) else list(dict.fromkeys(several)))
        for j in sources[-1]:
            if j < group.start:
                outside.setdefault(j, len(outside))
    n = len(outside)
    fed = [tuple(n + position[j - group.start] if j >= group.start else outside[j] for j in s) for s in sources]
    return n, fed


def _needed(group: Group, consumers: Sequence[Sequence[int]]) -> tuple[int, list[list[int]]]:
    """Return how many rows after the group consume from it, and the items that each of them consumes."""
    needed: dict[int, list[int]] = {}
    for k, item in enumerate(group.items):
        for row in range(first_row(item), end_row(item)):
            for consumer in consumers[row]:
                if consumer >= group.stop:
                    needed.setdefault(consumer, []).append(k)
    return len(needed), list(needed.values())


def _map_copies(items: Sequence[Item], f: Fold, stands_for: NDArray[np.int64]) -> None:
    """Let the rows of all copies stand for those of the first one."""
    start, stop = first_row(items[f.start]), end_row(items[f.stop - 1])
    period = first_row(items[f.start + f.period]) - start
    stands_for[start:stop] = np.tile(np.arange(start, start + period), f.count)


def _applied(
    parent: Group, items: Sequence[Item], offset: int, folds: Sequence[Fold], wears: dict[int, str]
) -> list[Item]:
    """Return `items`, of which the first is number `offset` of its group, with the folds among them carried out."""
    widest: dict[int, Fold] = {}
    for f in folds:
        widest.setdefault(f.start - offset, f)
    out: list[Item] = []
    k = 0
    while k < len(items):
        found = widest.get(k)
        if found is None:
            out.append(items[k])
            k += 1
            continue
        inner = [f for f in folds if f is not found and found.start <= f.start < found.start + found.period]
        copies = items[k : k + found.period * found.count]
        out.append(_repeated(parent, copies, found, offset + k, inner, wears))
        k += len(copies)
    return out


def _repeated(
    parent: Group, copies: Sequence[Item], f: Fold, offset: int, inner: Sequence[Fold], wears: dict[int, str]
) -> Group:
    """Return the group that stands for all `copies`: a module's own, if the copies are no more than that."""
    only, last = copies[0], copies[-1]
    if f.period == 1 and isinstance(only, Group) and isinstance(last, Group):
        only.times, only.last = f.count, last.path
        return only
    finals = [wears.get(item, "") if isinstance(item, int) else _innermost(item).path for item in copies[-f.period :]]
    for item, path in zip(copies, finals, strict=False):
        if isinstance(item, Group):
            _innermost(item).last = path
    last_path = next(filter(None, reversed(finals)), "")
    start = first_row(only)
    stop = start + (end_row(last) - start) // f.count
    if f.period == 1 and only in wears:
        return Group("module", wears[only], start, parent, [only], stop, f.count, last_path)
    group = Group("repeat", parent.path, start, parent, stop=stop, times=f.count, last=last_path)
    group.items = _applied(group, copies[: f.period], offset, inner, wears)
    for item in group.items:
        if isinstance(item, Group):
            item.parent = group
    return group


def _innermost(group: Group) -> Group:
    """Return the group that `group` consists of, and so on: the one whose frame is drawn."""
    while len(group.items) == 1 and isinstance(group.items[0], Group):
        group = group.items[0]
    return group


def _modules_below(group: Group) -> Iterator[Group]:
    """Yield the modules of which `group` consists, also those within its repetitions."""
    waiting = [item for item in group.items if isinstance(item, Group)]
    while waiting:
        inner = waiting.pop()
        if inner.kind == "module":
            yield inner
        else:
            waiting += [item for item in inner.items if isinstance(item, Group)]
