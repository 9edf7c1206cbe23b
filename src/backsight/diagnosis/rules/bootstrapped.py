"""BS173: the target of a temporal difference has its graph, so the loss also trains what it is to be compared with."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from backsight.diagnosis.amending import swapped
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.scene import Scene, operation_of, rule
from backsight.diagnosis.wording import if_known, warning
from backsight.source import Place
from backsight.source.body import body_around
from backsight.source.rewriting import simple
from backsight.story.holders import given, users
from backsight.tape import Node
from backsight.tape.ops import VIEWS

_LOSSES = frozenset({"MseLoss", "SmoothL1Loss", "HuberLoss", "L1Loss"})
_TOGETHER = frozenset({"Stack", "Cat"})
_SAME_VALUES = VIEWS | _TOGETHER | {"Slice", "Select", "Split", "Unbind", "Clone", "ToCopy"}
_OF_VALUES = _SAME_VALUES | frozenset(
    {"Gather", "Index", "IndexSelect", "Max", "Amax", "Maximum", "Min", "Amin", "Minimum", "Mean", "Where"}
    | {"MaskedFill", "IndexPut", "CopySlices", "Add", "Sub", "Mul", "Tanh"}
)
"""Operations between the values that a network returns and a target: a choice, a mask, a bonus."""

_LAYERS = frozenset({"Addmm", "Mm", "Embedding", "AccumulateGrad"})
_DISCOUNT = re.compile(r"gamma|discount|γ", re.IGNORECASE)
_ON_PURPOSE = re.compile(r"residual|bellman_error|baird", re.IGNORECASE)
_MOST = 64


class _Discounted(NamedTuple):
    """The operation that multiplies values by a discount, which it has as a text, and how the program calls them."""

    node: Node
    values: Node
    text: str


@rule("BS173")
def bootstrapped(scene: Scene) -> Iterator[Finding]:
    """Under an exact watch: a loss compares two outputs of one network that is trained, one of them as reward + gamma *
    value.

    Both have to come of the very same last layer, and the factor to be called a discount: a residual of an equation has
    derivatives, whose last layer is another one.
    """
    above = users(scene.graph)
    owned = {leaf.node for leaf in scene.graph.leaves if leaf.owner}
    for node in scene.graph.nodes:
        sides = given(node)
        if len(sides) != 2 or not (node.op in _LOSSES or (node.op == "Sub" and _is_squared(node, above))):
            continue
        for position, (target, other) in enumerate((sides, sides[::-1])):
            found = _discounted(target)
            layers = _layers(other) & owned
            if found is not None and layers and _discounted(other) is None and layers <= _layers(found.values):
                yield _finding(scene, node, position, found)
                return


def _is_squared(node: Node, above: dict[int, list[Node]]) -> bool:
    """Whether a difference, or several put together, is squared, or what a loss takes of it."""
    differences = [node]
    for each in differences:  # grows as we go
        for user in above.get(each.index, ()):
            if user.op in {"Pow", "Abs"} | _LOSSES or (user.op == "Mul" and given(user) == [each, each]):
                return True
            if user.op in _SAME_VALUES and len(differences) < _MOST:
                differences.append(user)
    return False


def _discounted(target: Node) -> _Discounted | None:
    """Return where something to which a number was added is multiplied by a discount."""
    ends = [(target, False)]
    for node, is_added in ends:  # grows as we go
        inputs = given(node)
        if is_added and (rest := _beside_a_discount(node)) and not _beside_a_discount(inputs[0]):
            return _Discounted(node, inputs[0], rest)
        if node.op in _SAME_VALUES or node.op in ("Add", "Sub", "Mul"):
            number = node.op == "Add" and len(inputs) == 1
            ends += [(each, is_added or number) for each in inputs if len(ends) < _MOST]
    return None


def _beside_a_discount(node: Node) -> str:
    """Return what a number that is called a discount multiplies; either may stand first."""
    operation = operation_of(node) if node.op == "Mul" and len(given(node)) == 1 else None
    texts = [each.text for each in operation.operands] if operation is not None else []
    rest = [each for each in texts if not _DISCOUNT.search(each)]
    return rest[0] if len(texts) == 2 and len(rest) == 1 else ""


def _layers(values: Node) -> set[int]:
    """Return the leaves of the layers whose outputs the values are, if they are those of layers."""
    ends, found = [values], set[int]()
    for node in ends:  # grows as we go
        inputs = given(node)
        if node.op in _LAYERS:
            own = [node] if node.op == "AccumulateGrad" else [*inputs, *(e for each in inputs for e in _turned(each))]
            found |= {each.index for each in own if each.op == "AccumulateGrad"}
        elif node.op in _OF_VALUES and len(ends) < _MOST:
            ends += inputs
        else:
            return set()
    return found


def _turned(node: Node) -> list[Node]:
    return given(node) if node.op in ("T", "Transpose") else []


def _finding(scene: Scene, node: Node, position: int, found: _Discounted) -> Finding:
    operation, line, discounting = operation_of(node), scene.line_of(node), scene.line_of(found.node)
    texts = [each.text for each in operation.operands] if operation is not None else []
    target = texts[position] if len(texts) > 1 else ""
    other = f"`{texts[1 - position]}`" if len(texts) > 1 and texts[1 - position] else "the prediction"
    values = f"`{found.text}`" if found.text else "the value of the next state"
    detached, edit = "", ""
    for name, at in ((target if target.isidentifier() else "", line), (found.text, discounting), (target, line)):
        if name and at is not None and not edit:
            detached = f"{simple(name)}.detach()"
            edit = swapped(at, {name: detached})
            detached = f"write {detached} on line {at.line}"
    made = warning(
        "BS173",
        f"The target of this loss is not detached: the loss trains {values} as well.",
        (
            if_known(discounting, f"computes the target from {values}, by the network that is trained."),
            if_known(
                line if discounting is None or line is None or line.place != discounting.place else None,
                f"compares it with {other}, an output of the same network.",
            ),
            f"So the loss also pulls {values} towards {other}, where only the reverse is wanted.",
        ),
        f"Take the target as a number: {detached or 'detach it'}{edit}, or compute it under torch.no_grad(). Keep its "
        "graph only to minimize the Bellman residual itself, which learns more slowly and, where the next state is "
        "random, something else.",
        line,
        nodes=(node.index, found.node.index),
    )
    return replace(made, severity="note") if line is not None and _is_on_purpose(line.place) else made


def _is_on_purpose(place: Place) -> bool:
    """Whether the function that compares the two speaks of a residual."""
    body = body_around(place.file, place.line)
    if body is None:
        return False
    first, last = getattr(body.node, "lineno", 1), getattr(body.node, "end_lineno", None)
    return _ON_PURPOSE.search("\n".join(body.lines[first - 1 : last])) is not None
