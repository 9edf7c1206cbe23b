"""Where the tensors of a run are in its graph: the nodes that use a parameter, or make what a module returns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from backsight.runs import Tensor
from backsight.tape import Graph
from backsight.tape.ops import VIEWS, op_name

PARAMETERS = ("weight", "grad", "averaged_grad", "update")
"""Kinds whose tensors are called as the parameter is that they are about."""

ENTERING = ("input", "eval_input")
"""Kinds of what a module takes; all others that are about modules are about what it returns."""

Nodes = dict[tuple[str, str], list[int]]
"""Indices of nodes by (name, kind)."""


def nodes_of(graph: Graph, tensors: Iterable[Tensor]) -> Nodes:
    """Return the nodes of each tensor that has a place in the graph.

    Of a parameter, its gradients, updates and state that is the leaf. Of inputs and outputs it is the first, or the
    last, operation of each call of the module that changes anything; a buffer is with what its module returns.
    """
    leaves = {name: leaf.node for leaf in reversed(graph.leaves) for name in leaf.names}
    first, last = _ends(graph)
    found: Nodes = {}
    for tensor in tensors:
        parameter = parameter_of(tensor.name, tensor.kind)
        if parameter is not None:
            nodes = [leaves[parameter]] if parameter in leaves else []
        else:
            nodes = (first if tensor.kind in ENTERING else last).get(tensor.module, [])
        if nodes:
            found[tensor.name, tensor.kind] = nodes
    return found


def lines_of(graph: Graph, nodes: Iterable[int]) -> list[str]:
    """Return the lines of the program that made these nodes; of a leaf those that use it."""
    if not graph.lines:
        return []
    columns, at = graph.columns, graph.leaf_at
    found: dict[str, None] = {}
    for node in nodes:
        edges = np.flatnonzero(columns.inputs == node) if node in at else ()
        made = (np.searchsorted(columns.start, edges, side="right") - 1).tolist() if node in at else [node]
        found |= dict.fromkeys(line for each in made if (line := graph.lines[each]) is not None)
    return list(found)


def parameter_of(name: str, kind: str) -> str | None:
    """Return the parameter that a tensor is about, if it is about one."""
    if kind == "state":
        return name.rpartition(".")[0]
    return name if kind in PARAMETERS else None


def _ends(graph: Graph) -> tuple[dict[str | None, list[int]], dict[str | None, list[int]]]:
    """Return by module the first and the last operation of each of its calls."""
    spans: dict[tuple[str, int], tuple[int, int]] = {}
    changes = [op_name(each.name) not in VIEWS for each in graph.types]
    of_type = graph.columns.type.tolist()
    for node in range(len(graph.modules)):
        if changes[of_type[node]]:
            for call in _around(graph, node):
                low, high = spans.get(call, (node, node))
                spans[call] = (min(low, node), max(high, node))
    first: dict[str | None, list[int]] = {}
    last: dict[str | None, list[int]] = {}
    for (module, _), (low, high) in spans.items():  # backward order: what is made last has the least index
        first.setdefault(module, []).append(high)
        last.setdefault(module, []).append(low)
    return first, last


def _around(graph: Graph, node: int) -> Iterator[tuple[str, int]]:
    """Yield the calls around a node; where calls are not known, the modules by their paths, a call each."""
    if graph.around:
        yield from graph.around[node]
    elif (path := graph.modules[node]) is not None:
        parts = path.split(".")
        yield "", 0
        yield from ((".".join(parts[:k]), 0) for k in range(1, len(parts) + 1) if path)
