"""BS151: a ratio of probabilities is 1 for ever, as both are computed anew by the same network."""

from __future__ import annotations

from collections.abc import Iterator

from backsight.diagnosis.evidence.holders import users
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.rules.registry import rule
from backsight.diagnosis.rules.sum_of_one import sums_of_one
from backsight.diagnosis.scene import Scene
from backsight.diagnosis.wording import shown, warning
from backsight.tape import Graph, Node
from backsight.tracing import Met

_BETWEEN = frozenset({"Sum", "View", "UnsafeView", "Squeeze", "Unsqueeze", "Clamp"})
"""What may stand between a difference and exp."""

_MOST = 512
"""Pairs of operations that are compared."""


@rule("BS151")
def constant_ratio(scene: Scene) -> Iterator[Finding]:
    """Under an exact watch: exp of a difference, or a quotient, of two results that were seen to be the same.

    Both have to be made by the same operations from the same leaves: then they are always the same, and what one side
    gives to a gradient the other takes away. Against a constant, a ratio is 1 only until the first update.
    """
    yield from sums_of_one(scene)
    for index, met in scene.met().items():
        node = scene.graph.nodes[index]
        first, second = node.inputs if met.same and len(node.inputs) == 2 else (None, None)
        if first is None or second is None or first.node.index == second.node.index:
            continue
        is_ratio = node.op == "Div" or (node.op == "Sub" and is_raised(scene.graph, node))
        if is_ratio and _are_alike(first.node, second.node):
            yield _finding(node, met)


def is_raised(graph: Graph, node: Node) -> bool:
    """Whether exp is taken of a difference."""
    of = users(graph)
    above = of.get(node.index, [])
    while len(above) == 1 and above[0].op in _BETWEEN:
        above = of.get(above[0].index, [])
    return any(each.op == "Exp" for each in above)


def _are_alike(one: Node, other: Node) -> bool:
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


def _finding(node: Node, met: Met) -> Finding:
    new, old = met.operands
    both = f"`{new}` and `{old}`" if new and old else "both sides"
    return warning(
        "BS151",
        f"A ratio is always 1: {both} are computed by the same network with the same parameters.",
        (
            shown(met.line.place, "compares two results that are bit-identical, and both attached to their graphs."),
            "Their gradients cancel: the parameters get zeros through the ratio.",
        ),
        f"Compute {f'`{old}`' if old else 'the old one'} once, before the updates, under torch.no_grad(), and keep it. "
        "Recomputed in each update, it only repeats the new one.",
        met.line.place,
        nodes=(node.index,),
    )
