"""Which sequence numbers belong to which site in the program: three integers for each run of nodes, by thread."""

from __future__ import annotations

import threading
from array import array
from bisect import bisect_right
from collections.abc import Iterable

import torch

from backsight.tape import alive, grad_fn, no_torch_function, sequence_number
from backsight.tracing._torch import next_number

LIMIT = 400_000
"""Intervals of a thread at which those are dropped that no live graph needs: 9 MB."""

_MOST_WALKED = 20_000
"""Nodes of live graphs that are looked at then; a walk over many more would make them dangerous to free."""


class Intervals:
    """The intervals of one thread, in order. `known` is the number up to which its nodes are accounted for."""

    def __init__(self, limit: int = LIMIT):
        self.limit = limit
        self.first, self.end, self.site = array("Q"), array("Q"), array("L")
        self.begin = self.known = next_number()

    def __len__(self) -> int:
        return len(self.first)

    def add(self, first: int, end: int, site: int) -> None:
        """Note that the nodes numbered from `first` up to `end` were made at `site`."""
        self.known = end
        if self.site and self.site[-1] == site and self.end[-1] == first:
            self.end[-1] = end
            return
        if len(self.first) >= self.limit:
            self._compact()
        self.first.append(first)
        self.end.append(end)
        self.site.append(site)

    def at(self, sequence: int) -> int | None:
        """Return the position of the interval that holds `sequence`; None if none does."""
        i = bisect_right(self.first, sequence) - 1
        return i if i >= 0 and sequence < self.end[i] else None

    def covers(self, sequence: int) -> bool:
        """Whether a node with this number may be one of this thread's."""
        return self.begin <= sequence < self.known

    def _compact(self) -> None:
        """Drop of the older half what belongs to no live graph."""
        half = len(self.first) // 2
        needed = {i for number in _live_numbers(self.first[half]) if (i := self.at(number)) is not None}
        kept = [*sorted(i for i in needed if i < half), *range(half, len(self.first))]
        for name in ("first", "end", "site"):
            column = getattr(self, name)
            setattr(self, name, array(column.typecode, (column[i] for i in kept)))
        self.limit = max(self.limit, 2 * (len(kept) - half))


def _live_numbers(before: int) -> Iterable[int]:
    """Return the sequence numbers, lower than `before`, of nodes in graphs that live tensors hold."""
    with no_torch_function():
        nodes = list(dict.fromkeys(node for t in alive(torch.Tensor) if (node := grad_fn(t)) is not None))
        seen = set(nodes)
        for node in nodes:  # grows as we go
            for producer, _ in node.next_functions if len(nodes) < _MOST_WALKED else ():
                if producer is not None and producer not in seen:
                    seen.add(producer)
                    nodes.append(producer)
    return [number for number in map(sequence_number, nodes) if number < before]


class Threads:
    """The intervals of every thread that makes nodes. The identifier of a thread that has ended may be given anew."""

    def __init__(self, limit: int = LIMIT):
        self._limit = limit
        self._here = threading.local()
        self._tables: dict[int, Intervals] = {}

    def here(self) -> Intervals:
        """Return those of this thread."""
        found: Intervals | None = getattr(self._here, "table", None)
        if found is None:
            found = self._here.table = self._tables[threading.get_ident()] = Intervals(self._limit)
        return found

    def of(self, sequence: int, thread: int | None) -> tuple[int, Intervals] | None:
        """Return the thread that made the node `sequence`, and its intervals: this one, or the only other."""
        if thread is None:
            thread = threading.get_ident()
            table = self._tables.get(thread)
            if (table is None or not len(table)) and len(others := [t for t in self._tables if t != thread]) == 1:
                thread = others[0]
        table = self._tables.get(thread)
        return (thread, table) if table is not None and table.covers(sequence) else None

    def holding(self, sequence: int) -> list[tuple[int, Intervals]]:
        """Return the threads that have noted a node of this number, where there are several threads."""
        tables = list(self._tables.items())
        return [each for each in tables if each[1].at(sequence) is not None] if len(tables) > 1 else []

    def marks(self) -> dict[int, int]:
        """Return for every thread the number up to which its nodes are known."""
        return {thread: table.known for thread, table in list(self._tables.items())}

    def __len__(self) -> int:
        return sum(map(len, list(self._tables.values())))
