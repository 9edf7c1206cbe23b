"""The one walk over live autograd nodes: iterative, each node once, safe to free afterwards."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backsight.tape import guard
from backsight.tape._torch import NO_SEQUENCE, sequence_number

Column = NDArray[np.int64]


@dataclass(frozen=True)
class Walk:
    """Live nodes, consumers before producers and leaves last, with their edges. Hold it for as short as possible.

    The inputs of `nodes[i]` are `inputs[start[i]:start[i + 1]]` (positions in `nodes`, -1 for none), each the output
    of that node numbered in `outputs`. `sequence` holds the sequence numbers, unsigned.
    """

    nodes: list[Any]
    start: Column
    inputs: Column
    outputs: Column
    sequence: NDArray[np.uint64]


class TooManyNodes(ValueError):
    """A graph has more nodes than are wanted."""


def walk(roots: Sequence[Any], most: int | None = None) -> Walk:
    """Walk from the nodes `roots` to the leaves.

    A first walk makes a Python wrapper for every node, about a microsecond each; see `guard` for what that entails.

    Raises:
        TooManyNodes: as soon as more than `most` nodes were met.
    """
    with gc_paused():
        found = _Found(list(dict.fromkeys(roots)))
        try:
            found.explore(most)
            return _protected(found)
        except BaseException:
            # An interrupted walk has touched nodes too, so what was reached is protected all the same.
            _protected(found)
            raise


def _protected(found: _Found) -> Walk:
    """Return what was found in backward order, safe to free. Doing it twice does no harm."""
    done = found.arranged()
    if len(done.nodes) > guard.SAFE:
        guard.protect(done.nodes, done.start, done.inputs, done.sequence)
    return done


@contextmanager
def gc_paused() -> Iterator[None]:
    """Pause the cyclic collector: it would scan the growing lists again and again (up to ten times slower)."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@dataclass
class _Found:
    """What a walk has reached so far, in the order of discovery."""

    nodes: list[Any]
    start: list[int] = field(default_factory=lambda: [0])
    inputs: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)

    def explore(self, most: int | None) -> None:
        index = {node: i for i, node in enumerate(self.nodes)}
        position, found = index.get, self.nodes.append
        add_input, add_output, add_start = self.inputs.append, self.outputs.append, self.start.append
        edges, known = 0, len(index)
        for node in self.nodes:  # grows as we go
            for producer, output in node.next_functions:
                if producer is None:
                    j = -1
                else:
                    j = position(producer, known)
                    if j == known:
                        index[producer] = known
                        found(producer)
                        known += 1
                add_input(j)
                add_output(output)
                edges += 1
            add_start(edges)
            if most is not None and known > most:
                raise TooManyNodes(f"the graph has more than {most:,} nodes")

    def arranged(self) -> Walk:
        """Return the explored nodes in backward order."""
        edges = min(self.start[-1], len(self.inputs), len(self.outputs))
        start = np.array(self.start + [edges] * (len(self.nodes) + 1 - len(self.start)))
        raw = Walk(
            self.nodes,
            start,
            np.array(self.inputs[:edges], np.int64),
            np.array(self.outputs[:edges], np.int64),
            np.array(list(map(sequence_number, self.nodes)), np.uint64),
        )
        # Descending, leaves last: their number is the largest, and adding one wraps it round to zero.
        by_sequence = _permuted(raw, np.argsort(~(raw.sequence + np.uint64(1)), kind="stable"))
        return by_sequence if _is_topological(by_sequence) else _permuted(by_sequence, _topological(by_sequence))


def _permuted(w: Walk, order: Column) -> Walk:
    """Return the walk with its nodes in another order."""
    n = len(w.nodes)
    if np.array_equal(order, np.arange(n)):
        return w
    position = np.empty(n + 1, np.int64)
    position[order] = np.arange(n)
    position[n] = -1  # where an input of -1 looks itself up
    degree = np.diff(w.start)[order]
    start = np.concatenate([[0], np.cumsum(degree)])
    edge = np.repeat(w.start[:-1][order] - start[:-1], degree) + np.arange(start[-1])
    nodes = [w.nodes[i] for i in order.tolist()]
    return Walk(nodes, start, position[w.inputs[edge]], w.outputs[edge], w.sequence[order])


def _is_topological(w: Walk) -> bool:
    """Whether each input stands after its consumer: always so for a graph that one thread has made."""
    consumer = np.repeat(np.arange(len(w.nodes)), np.diff(w.start))
    return bool(np.all((w.inputs > consumer) | (w.inputs < 0)))


def _topological(w: Walk) -> Column:
    """Order a graph made by several threads, whose sequence numbers are not comparable (Kahn's algorithm)."""
    start, inputs = w.start.tolist(), w.inputs.tolist()
    consumers = [0] * len(w.nodes)
    for j in inputs:
        if j >= 0:
            consumers[j] += 1
    order = [i for i, n in enumerate(consumers) if not n]
    for i in order:  # grows as we go
        for j in inputs[start[i] : start[i + 1]]:
            if j >= 0:
                consumers[j] -= 1
                if not consumers[j]:
                    order.append(j)
    ready = np.array(order)
    is_leaf = w.sequence[ready] == NO_SEQUENCE
    return np.concatenate([ready[~is_leaf], ready[is_leaf]])
