"""Ratios that are always 1: both sides of a quotient, or of a difference below exp, are computed alike."""

from __future__ import annotations

from collections.abc import Collection

from backsight.story.holders import below, users
from backsight.tape import Graph, Node

_BETWEEN = frozenset({"Sum", "View", "UnsafeView", "Squeeze", "Unsqueeze", "Clamp"})
"""What may stand between a difference and exp."""

_MOST = 512
"""Pairs of operations that are compared."""


def ratio_of_one(graph: Graph, nodes: Collection[int]) -> bool:
    """Whether a result, made by one of `nodes`, is compared with one that is computed alike.

    Computed anew together with that one it would always be the same: their gradients would cancel.
    """
    for node in graph.nodes:
        first, second = node.inputs if len(node.inputs) == 2 else (None, None)
        if first is None or second is None or not (node.op == "Div" or (node.op == "Sub" and is_raised(graph, node))):
            continue
        sides = (first.node, second.node)
        if are_alike(*sides) and any({*below(graph, [each.index])} & {*nodes} for each in sides):
            return True
    return False


def is_raised(graph: Graph, node: Node) -> bool:
    """Whether exp is taken of a difference."""
    of = users(graph)
    above = of.get(node.index, [])
    while len(above) == 1 and above[0].op in _BETWEEN:
        above = of.get(above[0].index, [])
    return any(each.op == "Exp" for each in above)


def are_alike(one: Node, other: Node) -> bool:
    """Whether two results are made by the same operations from the same leaves."""
    pairs = [(one, other)]
    seen = {(one.index, other.index)}
    for left, right in pairs:  # grows as we go
        if left.index == right.index:
            continue
        if left.op != right.op or left.kind == "leaf" or len(left.inputs) != len(right.inputs) or len(pairs) > _MOST:
            return False
        for a, b in zip(left.inputs, right.inputs, strict=True):
            if (a is None) != (b is None) or (a is not None and b is not None and a.output != b.output):
                return False
            if a is not None and b is not None and (pair := (a.node.index, b.node.index)) not in seen:
                seen.add(pair)
                pairs.append((a.node, b.node))
    return True
