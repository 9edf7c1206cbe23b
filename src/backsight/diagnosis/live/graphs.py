"""`graphs`: every autograd graph that is alive, and what keeps it so."""

from __future__ import annotations

import bisect
import gc
import weakref
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from backsight.diagnosis.live.census import Pinned, labels, leaf_memory, maker, pinned, with_history, without_consumer
from backsight.diagnosis.live.holders import names_of, pattern
from backsight.naming import Name
from backsight.tape import NO_SEQUENCE, no_torch_function
from backsight.tape.walk import Walk, walk
from backsight.tracing import Watch, current

if TYPE_CHECKING:
    from backsight.diagnosis.live.table import Growth
    from backsight.text.rich import Console, ConsoleOptions, RenderResult

_MOST_FOLLOWED = 200_000
"""Operations of a graph up to which it is found out which of several holders keeps the oldest."""

_ASKED = 3
"""Tensors of one graph that are looked for in variables: any of them keeps it alive."""


@dataclass(frozen=True)
class LiveGraph:
    """A graph that is alive: operations that are connected, leaves aside, which many graphs share.

    `names` are the variables that hold it, the best first; none where only C++ or a library holds it. `nodes` counts
    its operations, and `bytes` is the memory that they keep for a backward, each piece once and without the leaves';
    `freed` says that a backward has released it, and only the nodes are left. `op` and `shape` tell of its newest
    result. `first` and `last` are the numbers of its oldest and newest operation in the thread that made them.
    `steps` and `backwards` count the optimizer steps and backwards since its newest operation; None where no watch
    runs. `line` is where that operation was made, if a watch knows.
    """

    names: tuple[Name, ...]
    nodes: int
    bytes: int
    freed: bool
    op: str
    shape: tuple[int, ...]
    first: int
    last: int
    steps: int | None = None
    backwards: int | None = None
    line: str = ""

    @property
    def name(self) -> str:
        """What the program calls the tensor that holds it: `history[29] (local of train)`; empty if nothing does."""
        return self.names[0].text if self.names else ""

    @property
    def holder(self) -> tuple[str, str, str]:
        """What the graphs of one list have in common: the scope, the name without numbers, and the newest operation."""
        return (*pattern(self.names[0]), "") if self.names else ("", "", self.op)


@dataclass(frozen=True)
class Held:
    """The graphs that one variable holds: one, or those of a list's elements, the newest first.

    `bytes` counts memory that they share once.
    """

    graphs: tuple[LiveGraph, ...]
    bytes: int

    @property
    def newest(self) -> LiveGraph:
        return self.graphs[0]

    @property
    def name(self) -> str:
        """What holds the newest of them."""
        return self.newest.name

    @property
    def nodes(self) -> int:
        return sum(graph.nodes for graph in self.graphs)

    @property
    def first(self) -> int:
        """The number of the oldest operation."""
        return min(graph.first for graph in self.graphs)


@dataclass(frozen=True)
class LiveGraphs:
    """All graphs that were alive at a moment, by what holds them, the largest first. Iterates over the graphs.

    ```python
    before = backsight.graphs()
    train(epochs=1)
    print(backsight.graphs().growth_since(before))
    ```

    Plain data: nothing is kept alive. `bytes` counts each piece of memory once.
    """

    held: tuple[Held, ...]
    bytes: int = 0

    @cached_property
    def graphs(self) -> tuple[LiveGraph, ...]:
        """Every graph, the largest first."""
        return tuple(sorted((graph for each in self.held for graph in each.graphs), key=lambda g: (-g.nodes, -g.last)))

    @property
    def nodes(self) -> int:
        """The operations of all graphs."""
        return sum(each.nodes for each in self.held)

    def growth_since(self, before: LiveGraphs) -> Growth:
        """Return what there is more of now than there was in `before`."""
        from backsight.diagnosis.live.table import growth

        return growth(before, self)

    def __iter__(self) -> Iterator[LiveGraph]:
        return iter(self.graphs)

    def __len__(self) -> int:
        return len(self.graphs)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from backsight.diagnosis.live.table import of_graphs

        yield from of_graphs(self, options.max_width)

    def __str__(self) -> str:
        from backsight.diagnosis.live.table import as_text

        return as_text(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))


def graphs(*, names: bool = True) -> LiveGraphs:
    """Return every autograd graph that is alive in this process, with the variables that hold them.

    ```python
    print(backsight.graphs())
    # held by                                   graphs   operations   pinned   newest result
    # log.values['loss'][29] (local of train)       30          120    freed   MeanBackward0 scalar
    ```

    After a backward nothing but the loss and what was kept on purpose should hold one. Under `backsight.watch()` the
    age is known too, and at its level "lines" the line that made each.

    Args:
        names: look for the variables that hold them. Without, it is quicker, and only types and sizes are told.

    Returns:
        `LiveGraphs`, which `print` shows as a table.
    """
    collecting = gc.isenabled()
    gc.disable()  # it would scan our growing lists again and again, and no finalizer is to run amid this
    try:
        with no_torch_function():
            live, label, holders = _walked()
            return _described(live, _pieces(live, label, holders), holders, names) if holders else LiveGraphs(())
    finally:
        if collecting:
            gc.enable()


Holders = dict[int, list[weakref.ref[torch.Tensor]]]
"""The tensors of Python's that each node has made, by its position; strong references would be found as holders."""


def _walked() -> tuple[Walk, NDArray[np.int64], Holders]:
    """Walk everything that is alive, and return who holds what nothing else in the graphs consumes.

    Of other nodes only the tensors of graphs that Python holds nowhere else are needed, and there may be a hundred
    times as many: each activation that was saved for backward is one.
    """
    tensors = with_history()
    makers: list[object | None] = []
    try:
        makers.extend(map(maker, tensors))
    finally:  # what was touched is to be safe to free, also when this is interrupted: see the guard's note
        live = walk([node for node in makers if node is not None])
    position = {node: i for i, node in enumerate(live.nodes)}
    free = without_consumer(live).tolist()
    holders: Holders = {}
    for tensor, node in zip(tensors, makers, strict=True):
        if node is not None and free[at := position[node]]:
            holders.setdefault(at, []).append(weakref.ref(tensor))
    label = labels(live)
    held = {label[at] for at in holders}
    for tensor, node in zip(tensors, makers, strict=True):
        if node is not None and label[at := position[node]] not in held:
            holders.setdefault(at, []).append(weakref.ref(tensor))
    return live, label, holders


@dataclass(frozen=True)
class _Piece:
    """One graph of a walk: its operations by position, and those among them that tensors of Python's hold."""

    members: list[int]
    first: int
    last: int
    held: list[int]


def _pieces(live: Walk, label: NDArray[np.int64], holders: Holders) -> list[_Piece]:
    """Return the graphs of one walk, the newest first."""
    inner = np.flatnonzero(live.sequence != np.uint64(NO_SEQUENCE))
    if not inner.size:  # nodes of leaves alone, which some hook keeps
        return []
    ordered = inner[np.argsort(label[inner], kind="stable")]
    found, starts = np.unique(label[ordered], return_index=True)
    first = np.minimum.reduceat(live.sequence[ordered], starts).tolist()
    last = np.maximum.reduceat(live.sequence[ordered], starts).tolist()
    members = [part.tolist() for part in np.split(ordered, starts[1:])]
    held: defaultdict[int, list[int]] = defaultdict(list)
    for at in sorted(holders):
        held[int(label[at])].append(at)
    entries = zip(found.tolist(), members, first, last, strict=True)
    pieces = [_Piece(inside, a, b, held[key]) for key, inside, a, b in entries]
    return sorted(pieces, key=lambda piece: -piece.last)


def _described(live: Walk, pieces: Sequence[_Piece], holders: Holders, names: bool) -> LiveGraphs:
    """Return the graphs as data, by what holds them."""
    edges = live.start.tolist(), live.inputs.tolist()
    tensors = [[ref for at in _keeping(live, piece, *edges) for ref in holders[at]][:_ASKED] for piece in pieces]
    named: Sequence[Sequence[Name]] = names_of(tensors) if names else [()] * len(pieces)
    own, watch = leaf_memory(live), current()
    by_holder: defaultdict[tuple[str, str, str], list[tuple[LiveGraph, dict[int, int]]]] = defaultdict(list)
    for piece, found in zip(pieces, named, strict=True):
        newest = holders[piece.held[0]][0]() if piece.held else None
        kept = pinned((live.nodes[i] for i in piece.members), own)
        graph = _graph(live, piece, newest, tuple(found), kept, watch)
        by_holder[graph.holder].append((graph, kept.memory))
    every: dict[int, int] = {}
    held = []
    for entries in by_holder.values():
        together = {storage: size for _, memory in entries for storage, size in memory.items()}
        every |= together
        held.append(Held(tuple(graph for graph, _ in entries), sum(together.values())))
    held.sort(key=lambda each: (-each.bytes, -each.nodes, -each.newest.last))
    return LiveGraphs(tuple(held), sum(every.values()))


def _keeping(live: Walk, piece: _Piece, start: list[int], inputs: list[int]) -> list[int]:
    """Return a graph's holders, first those that keep its oldest operation: others only share newer ones with them."""
    if len(piece.held) < 2 or len(piece.members) > _MOST_FOLLOWED:
        return piece.held
    reach = {min(piece.members, key=live.sequence.__getitem__)}
    for at in sorted(piece.members, reverse=True):  # producers before consumers
        if not reach.isdisjoint(inputs[start[at] : start[at + 1]]):
            reach.add(at)
    return sorted(piece.held, key=lambda at: at not in reach)


def _graph(
    live: Walk,
    piece: _Piece,
    tensor: torch.Tensor | None,
    names: tuple[Name, ...],
    kept: Pinned,
    watch: Watch | None,
) -> LiveGraph:
    return LiveGraph(
        names=names,
        nodes=len(piece.members),
        bytes=sum(kept.memory.values()),
        freed=kept.freed,
        op=type(live.nodes[min(piece.members)]).__name__,
        shape=() if tensor is None or tensor.is_nested else tuple(tensor.shape),
        first=piece.first,
        last=piece.last,
        steps=_steps_since(piece.last, watch),
        backwards=_backwards_since(piece.last, watch),
        line=_line(piece.last, watch),
    )


def _steps_since(sequence: int, watch: Watch | None) -> int | None:
    """Return the optimizer steps since a node was made; None where that cannot be told."""
    marks = list(watch.steps.past.values()) if watch else []
    if len(marks) != 1 or not marks[0] or (sequence < marks[0][0] and len(marks[0]) == marks[0].maxlen):
        return None  # numbers of several threads cannot be compared
    return len(marks[0]) - bisect.bisect_right(marks[0], sequence)


def _backwards_since(sequence: int, watch: Watch | None) -> int | None:
    before = watch.backward_before(sequence) if watch else None
    return None if watch is None or before is None else len(watch.backwards) + watch.backwards[0].index - before.index


def _line(sequence: int, watch: Watch | None) -> str:
    line = watch.line_of(sequence) if watch else None
    return str(line) if line else ""
