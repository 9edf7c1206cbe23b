"""Questions to a graph: paths, what lies between, how many ways, what two graphs share."""

from __future__ import annotations

from difflib import get_close_matches

import numpy as np
import torch

from backsight.tape._torch import NO_SEQUENCE, identity, is_leaf, sequence_number
from backsight.tape.capture import root_edges
from backsight.tape.graph import Graph
from backsight.tape.node import Node
from backsight.tape.tensors import Leaf

Place = torch.Tensor | Leaf | Node | str | int
"""What names a node: a live tensor, a leaf or node of the graph, a name (of a leaf, a root or a node), or an index."""


class NotInGraph(LookupError):
    """A place that the graph does not contain, or a name that fits several nodes."""


def locate(graph: Graph, place: Place) -> int:
    """Return the index of the node that `place` stands for.

    Raises:
        NotInGraph: if the graph does not contain it, or if a name fits several nodes.
        TypeError: if `place` is none of the things that can name a node.
    """
    if isinstance(place, Node):
        if place.graph is not graph:
            raise NotInGraph(f"{place} belongs to another graph; look it up in this one by name or tensor.")
        return place.index
    if isinstance(place, Leaf):
        return _leaf_node(graph, place)
    if isinstance(place, torch.Tensor):
        return _tensor_node(graph, place)
    if isinstance(place, str):
        return _named(graph, place)
    if isinstance(place, int) and not isinstance(place, bool):
        if not 0 <= place < len(graph):
            raise NotInGraph(f"there is no node {place}: the graph has {len(graph)} nodes, numbered from 0.")
        return place
    raise TypeError(f"a place in a graph is a tensor, leaf, node, name or index, not {type(place).__name__}.")


def _leaf_node(graph: Graph, leaf: Leaf) -> int:
    if not 0 <= leaf.index < len(graph.leaves) or graph.leaves[leaf.index] is not leaf:
        raise NotInGraph(f"{leaf.label} belongs to another graph; look it up in this one by name or tensor.")
    return leaf.node


def _tensor_node(graph: Graph, tensor: torch.Tensor) -> int:
    if is_leaf(tensor):
        for leaf in graph.leaves:
            if leaf.tensor() is tensor:
                return leaf.node
    elif tensor.requires_grad:
        ((node, _),) = root_edges((tensor,))
        at = np.flatnonzero(graph.columns.ids == identity(node))
        if len(at) and graph.columns.sequence[at[0]] == sequence_number(node):
            return int(at[0])
    raise NotInGraph(f"the tensor of shape {tuple(tensor.shape)} is neither a leaf of this graph nor made in it.")


def _named(graph: Graph, name: str) -> int:
    found = {leaf.node for leaf in graph.leaves if name == leaf.name or name in leaf.names}
    found |= {i for (i, _), root in zip(graph.root_edges, graph.root_names, strict=True) if root == name}
    if not found:
        kinds = {k for k, t in enumerate(graph.types) if t.name == name}
        found = set(np.flatnonzero(np.isin(graph.columns.type, list(kinds))).tolist()) if kinds else set()
    if not found:  # without the name of the model, as modules are called
        ends = [leaf for leaf in graph.leaves if any(each.endswith(f".{name}") for each in (leaf.name, *leaf.names))]
        found = {leaf.node for leaf in ends} if len(ends) == 1 else found
    if len(found) == 1:
        return found.pop()
    if found:
        raise NotInGraph(f"{name!r} fits {len(found)} nodes; pass one of them, a tensor or an index instead.")
    known = [leaf.name for leaf in graph.leaves if leaf.name] + [root for root in graph.root_names if root]
    close = nearest(name, known)
    which = "It knows" if len(known) == len(close) else f"The nearest of its {len(known):,} names"
    raise NotInGraph(
        f"no leaf, root or node of this graph is called {name!r}. {which}: {', '.join(close) or 'no names'}."
    )


def nearest(name: str, known: list[str], most: int = 5) -> list[str]:
    """Return the known names that are most like `name`, the most similar first; all as they are if they are few."""
    return known if len(known) <= most else get_close_matches(name, known, most, 0.0)


def path(graph: Graph, a: Place, b: Place) -> tuple[Node, ...]:
    """Return the nodes of a shortest path from `a` to `b`, both included; empty if there is none."""
    i, j = locate(graph, a), locate(graph, b)
    if i < j:  # a consumes, directly or not, what b makes
        return _descend(graph, i, j)
    return tuple(reversed(_descend(graph, j, i)))


def _descend(graph: Graph, top: int, bottom: int) -> tuple[Node, ...]:
    start, inputs = graph.columns.start.tolist(), graph.columns.inputs.tolist()
    came_from = {top: top}
    queue = [top]
    for i in queue:  # breadth first; grows as we go
        if i == bottom:
            break
        for j in inputs[start[i] : start[i + 1]]:
            if 0 <= j <= bottom and j not in came_from:
                came_from[j] = i
                queue.append(j)
    if bottom not in came_from:
        return ()
    trail = [bottom]
    while trail[-1] != top:
        trail.append(came_from[trail[-1]])
    return tuple(Node(graph, i) for i in reversed(trail))


def between(graph: Graph, a: Place, b: Place) -> tuple[Node, ...]:
    """Return every node that lies on some path between `a` and `b`, in backward order; empty if there is none."""
    top, bottom = sorted((locate(graph, a), locate(graph, b)))
    reached = _reach(graph, top, bottom)
    leads = _lead_to(graph, bottom, top)
    return tuple(Node(graph, i) for i in range(top, bottom + 1) if reached[i - top] and leads[i - top])


def _reach(graph: Graph, top: int, bottom: int) -> list[bool]:
    start, inputs = graph.columns.start.tolist(), graph.columns.inputs.tolist()
    reached = [False] * (bottom - top + 1)
    reached[0] = True
    for i in range(top, bottom):
        if reached[i - top]:
            for j in inputs[start[i] : start[i + 1]]:
                if 0 <= j <= bottom:
                    reached[j - top] = True
    return reached


def _lead_to(graph: Graph, bottom: int, top: int) -> list[bool]:
    start, inputs = graph.columns.start.tolist(), graph.columns.inputs.tolist()
    leads = [False] * (bottom - top + 1)
    leads[-1] = True
    for i in range(bottom - 1, top - 1, -1):
        leads[i - top] = any(leads[j - top] for j in inputs[start[i] : start[i + 1]] if top <= j <= bottom)
    return leads


def count_paths(graph: Graph, a: Place, b: Place) -> int:
    """Return how many different paths join `a` and `b`: by dynamic programming, since 1e11 is a normal answer."""
    top, bottom = sorted((locate(graph, a), locate(graph, b)))
    start, inputs = graph.columns.start.tolist(), graph.columns.inputs.tolist()
    ways = [0] * (bottom - top + 1)
    ways[0] = 1
    for i in range(top, bottom):
        if ways[i - top]:
            for j in inputs[start[i] : start[i + 1]]:
                if 0 <= j <= bottom:
                    ways[j - top] += ways[i - top]
    return ways[-1]


def shared(graph: Graph, other: Graph) -> tuple[Node, ...]:
    """Return the operations of `graph` that `other` contains too, in backward order.

    Both must have been captured while the nodes were alive, in the same process.
    """
    if not isinstance(other, Graph):
        raise TypeError(f"shared() compares with another Graph, not with {type(other).__name__}.")
    theirs = set(other.identities)
    return tuple(Node(graph, i) for i, key in enumerate(graph.identities) if key in theirs and key[1] != NO_SEQUENCE)
