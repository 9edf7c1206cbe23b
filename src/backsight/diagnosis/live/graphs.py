"""`graphs`: every autograd graph that is alive, and what keeps it so."""

from __future__ import annotations

import bisect
import gc
import re
import weakref
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, groupby, starmap
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from backsight.diagnosis.live.census import Pinned, labels, leaf_memory, maker, pinned, with_history, without_consumer
from backsight.naming import Name, search
from backsight.tape import NO_SEQUENCE, no_torch_function
from backsight.tape.walk import Walk, walk
from backsight.tracing import Watch, current

Weak = Callable[[], torch.Tensor | None]
"""Strong references of ours would be found as holders."""

_NUMBER = re.compile(r"\[\d+\]")
_WITHIN = re.compile(r"(?<=\[…\])(\[[^\[\]]*\])+$")
"""What follows the number: `[1]` in `history[…][1]`, for a list of pairs."""

_ASKED = 1000
"""Graphs whose tensors are looked for one by one; those of a list are then told by the list."""

_BUDGET = 150_000
"""Objects that one search may visit: a tenth of a second."""

_ROUNDS = 3
"""Containers that are looked for, each of which may hold any number of graphs."""

_CONTAINERS = (list, dict, deque)


def names_of(pieces: Sequence[Sequence[Weak]]) -> list[list[Name]]:
    """Return the names for each graph, of which some tensors are given, the best first.

    A tensor deep in the user's data may lie beyond what a search can visit. Then the collector is asked what refers to
    it, and if that is a list with a name, the list names all that it holds.
    """
    named: list[list[Name]] = [[] for _ in pieces]
    targets = [(at, tensor) for at, refs in enumerate(pieces[:_ASKED]) for ref in refs if (tensor := ref()) is not None]
    for (at, _), found in zip(targets, _search([tensor for _, tensor in targets]), strict=True):
        named[at] += found
    del targets
    for _ in range(_ROUNDS):
        if not (unnamed := [at for at, names in enumerate(named) if not names]):
            break
        items = _items_beside(pieces[unnamed[0]])
        if not items:
            break
        for at in unnamed:
            tensors = (ref() for ref in pieces[at])
            named[at] += [items[id(tensor)] for tensor in tensors if tensor is not None and id(tensor) in items]
    _prefer_collections(named)
    return named


def pattern(name: Name) -> tuple[str, str]:
    """Return the scope, and the name without numbers: what the elements of one list have in common."""
    return name.scope, _WITHIN.sub("", _NUMBER.sub("[…]", name.path))


def _search(targets: Sequence[object]) -> tuple[tuple[Name, ...], ...]:
    return search(targets, limit=2, budget=_BUDGET).names if targets else ()


def _items_beside(refs: Sequence[Weak]) -> dict[int, Name]:
    """Return the names of everything in the containers that hold one of these tensors, by id."""
    sample = [tensor for ref in refs if (tensor := ref()) is not None]
    holders = [each for each in _referrers_but_tuples(sample) if type(each) in _CONTAINERS and each is not sample]
    del sample
    found = zip(holders, _search(holders), strict=True)
    return {key: name for holder, names in found if names for key, name in _items(holder, names[0])}


def _referrers_but_tuples(objects: list[Any]) -> list[Any]:
    """Return what refers to one of these, tuples left out.

    Another thread may be building one of the tuples, and fails to finish it if somebody holds it then. So they pass
    through one call of a function written in C, `list`, which no other thread interrupts, and no variable holds what
    they pass through.

    Source: CPython, Objects/tupleobject.c, `_PyTuple_Resize`.
    """
    none_of_tuples: Callable[..., Any] = {tuple: ()}.get  # asked with a type, and what is of that type
    found = chain.from_iterable(starmap(gc.get_referrers, [objects]))  # nobody is asked before `list` is
    return list(chain.from_iterable(starmap(none_of_tuples, groupby(found, key=type))))


def _items(container: Any, of: Name) -> Iterator[tuple[int, Name]]:
    entries = container.items() if type(container) is dict else enumerate(container)
    for key, item in list(entries):
        if type(key) in (str, int) and issubclass(type(item), torch.Tensor):
            path = f"{of.path}[{key!r}]"
            yield id(item), replace(of, path=path, text=of.text.replace(of.path, path, 1), kind="item")


def _prefer_collections(named: list[list[Name]]) -> None:
    """Put the name in a list that holds more of the graphs before one that only this graph has: `loss` is its last."""
    number = Counter(each for names in named for each in {pattern(name) for name in names})
    for names in named:
        names.sort(key=lambda name: -number[pattern(name)])


# The graphs themselves.


if TYPE_CHECKING:
    from backsight.diagnosis.live.table import Growth
    from backsight.text.rich import Console, ConsoleOptions, RenderResult

_MOST_FOLLOWED = 200_000
"""Operations of a graph up to which it is found out which of several holders keeps the oldest."""

_ASKED_OF_ONE = 3
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
    tensors = [[ref for at in _keeping(live, piece, *edges) for ref in holders[at]][:_ASKED_OF_ONE] for piece in pieces]
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
