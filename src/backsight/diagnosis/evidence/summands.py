"""The terms of a loss."""

from __future__ import annotations

from backsight.diagnosis.evidence.holders import given
from backsight.tape import Graph, Node

_SUMS = ("Add", "Sub")
_FACTORS = ("Mul", "Div", "Neg")


def summands(graph: Graph) -> tuple[set[int], list[Node]]:
    """Return the sums that a loss is made of, and what they are the sums of: nodes with or without a factor.

    What is subtracted further inside, and squared, is a target and no term.
    """
    sums, found = set(), []
    stack = [*graph.roots]
    for node in stack:  # grows as we go
        inputs = given(node)
        is_sum = node.op in _SUMS or (node.op in _FACTORS and len(inputs) == 1)
        if is_sum and node.shape == ():
            sums.add(node.index)
            stack += inputs
        else:
            found.append(node)
    return sums, found
