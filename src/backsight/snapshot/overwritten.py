"""Leaves that have lost their variable: an approximate name, from the nearest result that still has one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import FrameType

import torch

from backsight.naming import Name, Search, requires_grad, search
from backsight.source import Place, rebinding
from backsight.tape import Graph, Leaf, NotInGraph, is_mended, no_torch_function
from backsight.tape.queries import locate

_MOST = 1000
"""How many live results are asked for their node: asking makes a wrapper, see the guard's note."""

_NEAR = 3
"""How many operations away a variable may be to be taken for the one that held the leaf."""

MIXED = -1
"""In a running sum, `total = total + x`, the first `total` is on the left all the way; no `x` is."""


@dataclass(frozen=True)
class Approximation:
    """The nearest variable that holds a result of a leaf, `distance` operations after it.

    `operand` is the side, 0 or 1, on which it came into the binary operations between, `MIXED` if the sides differ.
    """

    result: Name
    distance: int
    operand: int | None = None

    @cached_property
    def statement(self) -> Place | None:
        """The statement that computes this variable from itself, by which it lost the leaf; None without evidence."""
        of = self.result
        if of.file is None or of.line is None or self.distance > _NEAR or self.operand == MIXED:
            return None
        return rebinding(of.file, of.line, of.path, self.operand)

    @property
    def near(self) -> str:
        """Where the leaf stands: ``operand of `delta = delta / y_pred`, train.py:41``."""
        if self.statement is not None:
            return f"operand of `{self.statement.text}`, {self.statement}"
        return self.way

    @property
    def way(self) -> str:
        """How far it is to the result: `2 operations before loss`."""
        if self.distance == 0:
            return f"which made {self.result.path}"
        return f"{self.distance} operation{'s' * (self.distance != 1)} before {self.result.path}"


def name_overwritten(graph: Graph, frames: Sequence[FrameType] = ()) -> Graph:
    """Return `graph` with an approximate name, marked as such, for each leaf that no variable holds.

    Such a leaf is taken for `delta (overwritten)` if a variable `delta` holds a result a few operations after it and
    the source of that variable's function computes `delta` from `delta`. Without that evidence its label only says how
    far it is from the nearest variable.
    """
    if all(leaf.name for leaf in graph.leaves):
        return graph
    results = by_node(graph, live_results(search((), frames=frames, collect=(torch.Tensor,), where=requires_grad)))
    found = approximations(graph, results, (leaf.node for leaf in graph.leaves))
    leaves = [_approximated(leaf, found.get(leaf.node)) for leaf in graph.leaves]
    return graph.renamed(leaves, graph.root_names)


def live_results(search: Search) -> list[tuple[torch.Tensor, Name]]:
    """Return the tensors collected by `search` that operations have made, nearest to the caller first."""
    with no_torch_function():
        tensors = [(t, name) for t, name in search.found if isinstance(t, torch.Tensor)]
        return [(t, name) for t, name in tensors if t.requires_grad and not is_mended(t) and not t.is_leaf][:_MOST]


def by_node(graph: Graph, results: Sequence[tuple[torch.Tensor, Name]]) -> dict[int, Name]:
    """Return the names of those `results` that were made in `graph`, by the node that made them."""
    named: dict[int, Name] = {}
    for tensor, name in results:
        try:
            with no_torch_function():
                named.setdefault(locate(graph, tensor), name)
        except NotInGraph:
            continue
    return named


def approximations(graph: Graph, results: Mapping[int, Name], nodes: Iterable[int]) -> dict[int, Approximation]:
    """Return the nearest of `results`, which are by node, for each of `nodes` from which one was computed."""
    start, inputs = graph.columns.start.tolist(), graph.columns.inputs.tolist()
    nearest = {node: Approximation(results[node], 0) for node in sorted(results)}
    queue = list(nearest)
    for i in queue:  # breadth first from all results at once; grows as we go
        of = nearest[i]
        producers = inputs[start[i] : start[i + 1]]
        binary = len(producers) == 2 and min(producers) >= 0
        for side, j in enumerate(producers):
            if j >= 0 and j not in nearest:
                operand = of.operand if not binary else side if of.operand in (None, side) else MIXED
                nearest[j] = Approximation(of.result, of.distance + 1, operand)
                queue.append(j)
    return {node: nearest[node] for node in nodes if node in nearest}


def _approximated(leaf: Leaf, found: Approximation | None) -> Leaf:
    if leaf.name or found is None:
        return leaf
    if found.statement is None:
        return replace(leaf, near=found.near)
    marked = f"{found.result.path} (overwritten)"
    return replace(leaf, kind="overwritten", name=marked, names=(marked,), near=found.near)
