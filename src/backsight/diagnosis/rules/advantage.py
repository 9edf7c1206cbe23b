"""BS132: the loss of a policy trains the critic through the advantage."""

from __future__ import annotations

from collections.abc import Iterator

from backsight.diagnosis.amending import swapped
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.scene import Scene, operation_of, rule
from backsight.diagnosis.wording import if_known, listed, warning
from backsight.source.rewriting import simple
from backsight.story.holders import given, leaves_below
from backsight.tape import Node

_OF_ONE = frozenset({"Neg", "Exp", "View", "UnsafeView", "ReshapeAlias", "Squeeze", "Unsqueeze", "Sum", "Mul", "Div"})
_TOGETHER = frozenset({"Stack", "Cat"})
_LINEAR = frozenset({"Addmm", "Mm"})
_DEEPEST = 12
_MOST = 64
"""Log-probabilities that were put together of which it is asked whether they are some."""


@rule("BS132")
def advantage(scene: Scene) -> Iterator[Finding]:
    """Under an exact watch: a log-probability, or a ratio of two, times what a layer of one output has a part in.

    What is expected is a score times a number. The other factor has to be a difference that leads to parameters which
    the log-probability does not depend on: those of a critic.
    """
    for node in scene.graph.nodes:
        first, second = node.inputs if node.op == "Mul" and len(node.inputs) == 2 else (None, None)
        if first is None or second is None:
            continue
        for score, other, position in ((first.node, second.node, 1), (second.node, first.node, 0)):
            value = _value(other) if _is_score(score) else None
            alone = _leaves(scene, other) - _leaves(scene, score)
            if value is not None and alone:
                yield _finding(scene, node, position, sorted(alone))
                return


def _is_score(node: Node) -> bool:
    """Whether a node is a log-probability, or several put together, up to sign, shape, a difference and exp."""
    ends = [node]
    for _ in range(_DEEPEST):
        more = []
        for each in ends:
            operation = operation_of(each)
            if operation is not None and operation.via.endswith(".log_prob"):
                continue
            inputs = given(each)
            passes = each.op in _TOGETHER or each.op in _OF_ONE or each.op == "Sub" or each.op.startswith("Clamp")
            if not inputs or not passes or (len(inputs) > 1 and each.op not in _TOGETHER):
                return False
            more += inputs
        if not more:
            return True
        ends = more[:_MOST]
    return False


def _value(node: Node) -> Node | None:
    """Return the layer of one output behind a difference: `returns - critic(states)`, scaled or not."""
    differs = False
    for _ in range(_DEEPEST):
        inputs = given(node)
        if node.op in _LINEAR:
            return node if differs and node.shape is not None and node.shape[-1:] == (1,) else None
        differs = differs or node.op == "Sub"
        if not inputs or node.op not in _OF_ONE | _TOGETHER | {"Sub", "Add"}:
            return None
        node = inputs[0] if len(inputs) == 1 else max(inputs, key=lambda each: each.op == "Sub")
    return None


def _leaves(scene: Scene, node: Node) -> set[str]:
    return {leaf.label for leaf in leaves_below(scene.graph, node.index)}


def _finding(scene: Scene, node: Node, position: int, names: list[str]) -> Finding:
    operation = operation_of(node)
    texts = {each.position: each.text for each in operation.operands} if operation is not None else {}
    name = texts.get(position, "")
    detached = f"{name}.detach()" if name.isidentifier() else "the advantage after .detach()"
    line = scene.line_of(node)
    edit = swapped(line, {name: f"{simple(name)}.detach()"}) if name else ""
    return warning(
        "BS132",
        f"The policy loss also trains {listed(names, 2)}, through {f'`{name}`' if name else 'the advantage'}.",
        (
            if_known(line, "multiplies a log-probability by a tensor that is still attached to its graph."),
            "That gradient lowers the advantage of probable actions, whatever their true value is.",
        ),
        f"Multiply by {detached}{edit}: the policy then uses only its value, and the critic learns from its own loss.",
        line,
        nodes=(node.index,),
    )
