"""BS151: a ratio of probabilities is 1 for ever, as both are computed anew by the same network."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from backsight.diagnosis.finding import Finding
from backsight.diagnosis.rules.registry import rule
from backsight.diagnosis.scene import Scene
from backsight.diagnosis.wording import shown
from backsight.tape import Node
from backsight.tape.saved import is_readable
from backsight.tracing import current

_BETWEEN = frozenset({"Sum", "View", "UnsafeView", "Squeeze", "Unsqueeze", "Clamp"})
"""What may stand between a difference and exp."""

_MOST = 512
"""Pairs of operations that are compared."""


@rule("BS151")
def constant_ratio(scene: Scene) -> Iterator[Finding]:
    """exp of a difference, or a quotient, that is exactly 1 for all entries, where both sides are still attached.

    Both have to be made by the same operations from the same leaves: then they are always the same, and what one side
    gives to a gradient the other takes away. Against a constant, a ratio is 1 only until the first update.
    """
    for node in scene.graph.nodes:
        between = _difference(node)
        first, second = between.inputs if between is not None and len(between.inputs) == 2 else (None, None)
        if between is None or first is None or second is None or first.node.index == second.node.index:
            continue
        entries = _ones(node)
        if entries and _are_alike(first.node, second.node):
            yield _finding(scene, node, between, entries)


def _difference(node: Node) -> Node | None:
    """Return the node whose two operands a ratio compares."""
    if node.op == "Div":
        return node
    if node.op != "Exp":
        return None
    given = [edge.node for edge in node.inputs if edge is not None]
    while given and given[0].op in _BETWEEN:
        given = [edge.node for edge in given[0].inputs if edge is not None]
    return given[0] if given and given[0].op == "Sub" else None


def _ones(node: Node) -> int:
    """Return how many entries a ratio has, if all of them are exactly 1; else 0."""
    kept = {each.name: each.tensor() for each in node.saved}
    if node.op == "Exp":
        result = kept.get("result")
        if result is None or not is_readable(result):
            return 0
        with torch.no_grad():
            return result.numel() if bool((result.detach() == 1).all()) else 0
    one, other = kept.get("self"), kept.get("other")
    if one is None or other is None or not is_readable(one) or not is_readable(other) or one.shape != other.shape:
        return 0
    with torch.no_grad():
        return one.numel() if bool((one.detach() == other.detach()).all()) else 0


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


def _finding(scene: Scene, node: Node, between: Node, entries: int) -> Finding:
    watch = current()
    operation = watch.operation_of(between) if watch is not None else None
    texts = {each.position: each.text for each in operation.operands} if operation is not None else {}
    new, old = texts.get(0, ""), texts.get(1, "")
    line = scene.line_of(node)
    both = f"`{new}` and `{old}`" if new and old else "both sides"
    kept = f"`{old}`" if old else "The old one"
    return Finding(
        "BS151",
        "warning",
        f"A ratio is always 1: {both} are computed by the same network with the same parameters.",
        (
            *((shown(line.place, f"is exactly 1 for {'1 entry' if entries == 1 else f'{entries:,} entries'}."),) if line else ()),
            "Both sides are attached to the graph, so their gradients cancel: the parameters get zeros through it.",
        ),
        f"Compute {kept[0].lower() + kept[1:]} once, before the updates, under torch.no_grad(), and keep it. Recomputed "
        "before each update, it only repeats the new one.",
        source=str(line.place) if line is not None else None,
        nodes=(node.index,),
    )
