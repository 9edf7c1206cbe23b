"""Leaves that have lost their variable: an approximate name, from the nearest result that still has one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import FrameType

import numpy as np
import torch

from backsight.naming import Name, search
from backsight.source import rebinding
from backsight.tape import Graph, Leaf
from backsight.tape.queries import NotInGraph, locate

_MOST = 1000
"""How many live results are asked for their node: asking makes a wrapper, see the guard's note."""

_NEAR = 3
"""How many operations away a variable may be to be taken for the one that held the leaf."""


def name_overwritten(graph: Graph, frames: Sequence[FrameType] = ()) -> Graph:
    """Return `graph` with an approximate name, marked as such, for each leaf that no variable holds.

    Such a leaf is taken for `delta (overwritten)` if a variable `delta` holds a result a few operations after it and
    the source of that variable's function computes `delta` from `delta`. Without that evidence its label only says how
    far it is from the nearest variable.
    """
    if all(leaf.name for leaf in graph.leaves):
        return graph
    results = _results(graph, frames)
    leaves = [leaf if leaf.name else _approximated(graph, leaf, results) for leaf in graph.leaves]
    return graph.renamed(leaves, graph.root_names)


def _results(graph: Graph, frames: Sequence[FrameType]) -> dict[int, Name]:
    """Return the names of variables that hold results computed in `graph`, by node."""
    found = search((), frames=frames, collect=(torch.Tensor,)).found
    results = [(t, name) for t, name in found if isinstance(t, torch.Tensor) and t.requires_grad and not t.is_leaf]
    by_node: dict[int, Name] = {}
    for tensor, name in results[:_MOST]:
        try:
            by_node.setdefault(locate(graph, tensor), name)
        except NotInGraph:
            continue
    return by_node


def _approximated(graph: Graph, leaf: Leaf, results: Mapping[int, Name]) -> Leaf:
    nearest = _nearest(graph, leaf.node, results)
    if nearest is None:
        return leaf
    name, distance = nearest
    statement = rebinding(name.file, name.line, name.path) if name.file and name.line and distance <= _NEAR else None
    if statement is None:
        return replace(leaf, near=f"{distance} operation{'s' * (distance != 1)} before {name.path}")
    marked = f"{name.path} (overwritten)"
    return replace(
        leaf, kind="overwritten", name=marked, names=(marked,), near=f"operand of `{statement.text}`, {statement}"
    )


def _nearest(graph: Graph, start: int, results: Mapping[int, Name]) -> tuple[Name, int] | None:
    """Return the closest named result computed from the node `start`, and how many operations away it is."""
    c = graph.columns
    consumer = np.repeat(np.arange(len(c.type)), np.diff(c.start))
    order = np.argsort(c.inputs, kind="stable")
    bounds = np.searchsorted(c.inputs[order], np.arange(len(c.type) + 1))
    level, seen, distance = [start], {start}, 0
    while level:
        named = [results[i] for i in level if i in results]
        if named:
            return named[0], distance
        above = {int(i) for j in level for i in consumer[order[bounds[j] : bounds[j + 1]]]} - seen
        seen |= above
        level, distance = sorted(above), distance + 1
    return None
