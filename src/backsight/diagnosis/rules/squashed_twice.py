"""BS122: probabilities are given to a loss that takes logits."""

from __future__ import annotations

from collections.abc import Iterator

from backsight.diagnosis.finding import Finding
from backsight.diagnosis.rules.registry import rule
from backsight.diagnosis.scene import Scene
from backsight.diagnosis.wording import shown
from backsight.tape import Node
from backsight.tracing import current

_LOSSES = {
    "LogSoftmax": ({"Softmax": "softmax", "LogSoftmax": "log_softmax"}, "cross_entropy", "NllLoss"),
    "BinaryCrossEntropyWithLogits": ({"Sigmoid": "sigmoid"}, "binary_cross_entropy_with_logits", ""),
}


@rule("BS122")
def squashed_twice(scene: Scene) -> Iterator[Finding]:
    """A softmax goes right into the log_softmax of a cross entropy, or a sigmoid into that of a binary one."""
    for node in scene.graph.nodes:
        known = _LOSSES.get(node.op)
        given = next(iter(node.inputs), None) if known is not None else None
        if known is None or given is None:
            continue
        squashing, loss, wanted = known
        function = squashing.get(given.node.op)
        used = any(
            edge is not None and edge.node.index == node.index for n in _users(scene, wanted) for edge in n.inputs
        )
        if function is not None and (not wanted or used):
            yield _finding(node, given.node, function, loss)


def _users(scene: Scene, op: str) -> Iterator[Node]:
    return (node for node in scene.graph.nodes if op and node.op.startswith(op))


def _finding(node: Node, inner: Node, function: str, loss: str) -> Finding:
    watch = current()
    lines = [watch.line_of(each) if watch is not None else None for each in (inner, node)]
    says = (f"has applied {function}.", f"applies it again: {loss} takes logits.")
    evidence = tuple(shown(line.place, text) for line, text in zip(lines, says, strict=True) if line is not None)
    return Finding(
        "BS122",
        "warning",
        f"{loss} takes logits, and is given the result of {function}: it squashes them twice.",
        evidence or (f"In the graph, {inner.name} goes straight into {node.name}.",),
        f"Give {loss} what {function} is given; apply {function} where probabilities are wanted.",
        source=str(lines[1].place) if lines[1] is not None else None,
        nodes=(node.index, inner.index),
    )
