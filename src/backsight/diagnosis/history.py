"""What an audit remembers of the last one at the same call site: numbers and weak references, no tensors."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from backsight.tape import Graph
from backsight.tracing.changes import version
from backsight.tracing.steps import Consumed, parameters

Site = tuple[str, int]
"""File and line of a call."""

_Place = tuple[int, str, int]
"""Thread, file and line: another thread's tensors may be amid a backward, and are not to be looked at."""

_LIMIT = 64
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class Growth:
    """One audited graph compared with the one before it at the same place.

    `size` counts its operations, `carried` those that were in the graph before; `trained` says whether a backward or an
    optimizer step ran in between.
    """

    size: int
    carried: int
    trained: bool


@dataclass(frozen=True)
class Past:
    """One audit as the next one at its call site needs it.

    `operations` identify the graph's operations, `growth` is that of the last graphs. `gradients` and `versions` are
    by the id of the parameter, `leaves` and `uses` by the id of the leaf: the number of the first operation on it.
    `given` names the leaves that are no parameters and that no optimizer holds.
    """

    operations: NDArray[np.uint64]
    growth: tuple[Growth, ...]
    gradients: dict[int, Consumed]
    versions: dict[int, tuple[weakref.ref[torch.Tensor], int]]
    leaves: dict[int, weakref.ref[torch.Tensor]]
    uses: dict[int, int]
    given: frozenset[str]

    def had_leaf(self, tensor: torch.Tensor | None) -> bool:
        """Whether this very tensor was a leaf of the graph of then."""
        held = self.leaves.get(id(tensor))
        return tensor is not None and held is not None and held() is tensor

    def was_changed(self, tensor: torch.Tensor) -> bool:
        """Whether this very tensor was known then and has been changed in place since."""
        held = self.versions.get(id(tensor))
        return held is not None and held[0]() is tensor and version(tensor) > held[1]

    def got_gradient(self, tensor: torch.Tensor) -> bool:
        """Whether its gradient is another one now than it was then."""
        then = self.gradients.get(id(tensor))
        return tensor.grad is not None and (then is None or not then.is_untouched(tensor.grad))


_past: dict[_Place, Past] = {}
_lock = threading.Lock()


def recall(site: Site) -> Past | None:
    """Return the last audit at `site` in this thread."""
    with _lock:
        return _past.get((threading.get_ident(), *site))


def remember(site: Site, graph: Graph, optimizers: Iterable[torch.optim.Optimizer]) -> None:
    """Keep what the next audit at `site` in this thread will compare with; the oldest goes when there are too many."""
    before, place = recall(site), (threading.get_ident(), *site)
    leaves = [t for leaf in graph.leaves if (t := leaf.tensor()) is not None]
    tensors = [*leaves, *(p for optimizer in optimizers for p in parameters(optimizer))]
    past = Past(
        operations(graph),
        _grown(before, graph),
        {id(p): Consumed(weakref.ref(p.grad), version(p.grad)) for p in tensors if p.grad is not None},
        {id(p): (weakref.ref(p), version(p)) for p in tensors},
        {id(leaf): weakref.ref(leaf) for leaf in leaves},
        first_uses(graph),
        frozenset(leaf.name for leaf in graph.leaves if leaf.kind != "parameter" and not leaf.owner and leaf.name),
    )
    with _lock:
        _past.pop(place, None)
        while len(_past) >= _LIMIT:
            del _past[next(iter(_past))]
        _past[place] = past


def _grown(before: Past | None, graph: Graph) -> tuple[Growth, ...]:
    if before is None:
        return (Growth(len(operations(graph)), 0, False),)
    if np.array_equal(operations(graph), before.operations):
        return before.growth  # the same graph, audited again
    return (*before.growth, growth_since(before, graph))[-2:]


def growth_since(past: Past, graph: Graph) -> Growth:
    """Compare `graph` with the one audited before it."""
    mine = operations(graph)
    carried = len(np.intersect1d(mine, past.operations, assume_unique=True))
    known = [tensor for ref, _ in past.versions.values() if (tensor := ref()) is not None]
    return Growth(len(mine), carried, any(past.was_changed(t) or past.got_gradient(t) for t in known))


def first_uses(graph: Graph) -> dict[int, int]:
    """Return the sequence number of the first operation on each leaf, by the id of the leaf."""
    columns = graph.columns
    consumers = np.repeat(columns.sequence.astype(np.int64), np.diff(columns.start))
    first = np.full(len(graph), np.iinfo(np.int64).max)
    known = columns.inputs >= 0
    np.minimum.at(first, columns.inputs[known], consumers[known])
    return {id(tensor): int(first[leaf.node]) for leaf in graph.leaves if (tensor := leaf.tensor()) is not None}


def operations(graph: Graph) -> NDArray[np.uint64]:
    """Return what identifies each operation of `graph` while it lives, sorted: its two numbers in one."""
    columns = graph.columns
    is_leaf = np.array([t.kind == "leaf" for t in graph.types], bool)[columns.type]
    # Two operations alike in this sum differ in both parts by one multiple: never seen, and only a count would be off.
    return np.unique((columns.ids * _SPREAD + columns.sequence)[~is_leaf])
