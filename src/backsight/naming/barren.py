"""Data that leads nowhere: a data set of dicts, strings and tensors is told apart at the speed of C, not visited.

In a heap of half a gigabyte nearly all objects are of this kind. A visit in Python takes a microsecond, and they take a
tenth of that here: whole levels at a time, by their types alone. Only tensors, arrays and what is collected are looked
at one by one: a tensor that requires no gradient, and is not sought itself, leads nowhere either.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, compress
from typing import Any

import numpy as np

from . import _torch, plain
from .referents import Referents
from .standstill import shared

LEVELS = 32
"""How deep data may be nested before what was met is remembered, so that data in circles come to an end."""

GROWTH = 512
"""How many times as many objects as it began with a batch may lead to, for the same reason."""

MOST = 8_000_000
"""References that are followed through circles for one batch: it takes a second or two."""

TRIES = 2
"""Batches that may turn out to lead somewhere after all, once they were followed through circles."""

BATCH = 1_024
"""Objects that are judged together: one of interest among them means a visit for all."""

_DATA: dict[int, Callable[[Any], bool]] = {
    id(_torch.Tensor): _torch.requires_grad,
    id(np.ndarray): lambda array: array.dtype.hasobject,
}
"""By the types of data, which are not visited for their own sake: whether one leads anywhere."""


class Barren:
    """Judges batches of objects, for one search."""

    def __init__(self, referents: Referents, targets: Sequence[object]) -> None:
        self.followed = 0
        self._met: dict[int, type] = {}
        self._referents = referents
        self._wanted = {id(type(target)) for target in targets} - _DATA.keys()
        self._sought = {id(target) for target in targets if id(type(target)) in _DATA}
        self._nowhere = set[int]()
        """What was followed through circles, by id: the program's data live on during a search."""
        self._tries = TRIES

    def without(self, objects: list[object]) -> list[object]:
        """Return the objects without those batches that lead to nothing a search could want."""
        batches = (objects[at : at + BATCH] for at in range(0, len(objects), BATCH))
        return [each for batch in batches if not self._leads_nowhere(batch) for each in batch]

    def without_all_of(self, parent: object, children: list[object]) -> list[object]:
        """Return the children of a large container without those that lead nowhere; twice at a standstill is once."""
        held = shared()
        known = None if held is None else held.nowhere
        if known is not None and id(parent) in known and self._leads_nowhere_still(known[id(parent)][1]):
            return []
        self._met = {}
        left = self.without(children)
        if known is not None and not left:
            known[id(parent)] = parent, dict(self._met)
        return left

    def _leads_nowhere_still(self, kinds: dict[int, type]) -> bool:
        """Whether what led nowhere for another search does so for this one, by the types that were met."""
        if self._opened(kinds) is None:
            return False
        return not (kinds.keys() & self._referents.collected or (self._sought and kinds.keys() & _DATA.keys()))

    def _leads_nowhere(self, batch: list[object]) -> bool:
        found = None if self._nowhere and self._tries else self._follow(batch)
        if found is None and self._tries:
            met = set[int]()
            found = self._follow(batch, met)
            if found:
                self._nowhere |= met
            else:
                self._tries -= 1
        return bool(found)

    def _follow(self, batch: list[object], met: set[int] | None = None) -> bool | None:
        """Whether a batch leads nowhere, level by level; None if it is too much of a tree to be worth it.

        With `met`, which gets the ids of what leads on, data that is nested deeply or in circles is followed too, each
        object once: what another batch has led to is known.
        """
        most = self.followed + (GROWTH * len(batch) if met is None else MOST)
        frontier, above, levels = batch, set[int](), 0
        while frontier:
            levels += 1
            if self.followed > most or (met is None and levels > LEVELS):
                return None
            keys = list(map(id, map(type, frontier)))  # by id: a metaclass may have a __hash__ of its own
            kinds = {key: type(frontier[keys.index(key)]) for key in set(keys)}
            self._met |= kinds
            opened = self._opened(kinds)
            if opened is None or not self._has_no_class(kinds, frontier, above):
                return False
            if any(self._matters(key, list(compress(frontier, map(key.__eq__, keys)))) for key in self._singled(kinds)):
                return False
            leading = compress(frontier, map(opened.__contains__, keys))
            frontier = gc.get_referents(*(leading if met is None else self._new(leading, met)))
            above = set(kinds)
            self.followed += len(frontier)
        return True

    def _new(self, objects: Iterable[object], met: set[int]) -> Iterator[object]:
        by_id = {id(each): each for each in objects}
        new = by_id.keys() - met - self._nowhere
        met |= new
        return map(by_id.__getitem__, new)

    def _opened(self, kinds: dict[int, type]) -> set[int] | None:
        """Return those types whose objects hold others; None if one of the types is of interest itself."""
        referents, opened = self._referents, set()
        for key, kind in kinds.items():
            expand = referents.by_type[key] if key in referents.by_type else referents.learn(kind)
            if key in self._wanted or key in referents.local or (key in referents.shared and key not in _DATA):
                return None
            if expand is gc.get_referents or key in _DATA:
                opened.add(key)
            elif expand is not None and not plain.inherits(kind, (type,)):
                return None
        return opened

    def _singled(self, kinds: dict[int, type]) -> set[int]:
        """Those types whose objects are looked at one by one."""
        return kinds.keys() & (_DATA.keys() | self._referents.collected)

    def _matters(self, kind: int, objects: list[Any]) -> bool:
        """Whether a search could want one of some objects of a type."""
        if kind in self._referents.collected and any(map(self._referents.is_collected, objects)):
            return True
        if kind not in _DATA:
            return False
        if self._sought and not self._sought.isdisjoint(map(id, chain(objects, map(_torch.base, objects)))):
            return True  # it is sought, or is a view of what is
        return any(map(_DATA[kind], objects))

    def _has_no_class(self, kinds: dict[int, type], frontier: list[object], above: set[int]) -> bool:
        """Whether all classes in the frontier are only the types of the objects that led to it."""
        metaclasses = {key for key, kind in kinds.items() if plain.inherits(kind, (type,))}
        return not metaclasses or all(id(each) in above for each in frontier if id(type(each)) in metaclasses)
