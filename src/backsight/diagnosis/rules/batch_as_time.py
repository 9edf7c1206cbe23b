"""BS147: dimensions are taken for one another, as by a recurrent layer that goes through the samples of a batch."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from backsight.diagnosis.evidence.holders import users
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.rules.classes_of_pixels import classes_of_pixels
from backsight.diagnosis.rules.registry import rule
from backsight.diagnosis.rules.softmax_dim import compares
from backsight.diagnosis.scene import Scene
from backsight.diagnosis.wording import shaped, shown, warning
from backsight.tape import Node
from backsight.tape.modules import ModelTree

_TAKES_ONE = ("Select", "Mean", "Max", "Amax")
_MOST = 2
"""Entries of the second dimension that are taken: of a bidirectional layer the last, and the first."""


@rule("BS147")
def crossed_dimensions(scene: Scene) -> Iterator[Finding]:
    """Dimensions that are taken for one another, where the graph alone shows it."""
    yield from batch_as_time(scene)
    yield from classes_of_pixels(scene)


def batch_as_time(scene: Scene) -> Iterator[Finding]:
    """One entry is taken of the second dimension of what a layer without batch_first returns, and the loss compares
    each of the first: so the first are the samples, and the layer takes them for the steps."""
    if not any(node.op in _TAKES_ONE for node in scene.graph.nodes):
        return
    modules: dict[str, torch.nn.Module] = {}
    taken: dict[int, list[Node]] = {}
    for node, edge in scene.graph.edges:
        if node.op in _TAKES_ONE and edge.node.module is not None and _is_of_second(edge.node, node):
            modules = modules or ModelTree.of(scene.models).modules
            if _is_time_first(modules.get(edge.node.module)):
                taken.setdefault(edge.node.index, []).append(node)
    for index, nodes in taken.items():
        made = scene.graph.nodes[index]
        rows = (made.shape or (0,))[0]
        if len(nodes) <= _MOST and compares(users(scene.graph), nodes[0], rows):
            yield _finding(scene, made, nodes[0])


def _is_of_second(made: Node, node: Node) -> bool:
    """Whether of three dimensions the second is gone."""
    first, shape = made.shape or (), node.shape or ()
    return len(first) == 3 and shape == (first[0], first[2]) and first[1] not in (1, first[0], first[2])


def _is_time_first(module: torch.nn.Module | None) -> bool:
    return isinstance(module, torch.nn.RNNBase) and not module.__dict__.get("batch_first", True)


def _finding(scene: Scene, made: Node, taken: Node) -> Finding:
    modules = ModelTree.of(scene.models).modules
    kind, path = type(modules[made.module or ""]).__name__, made.module or "the layer"
    line, used = scene.line_of(made), scene.line_of(taken)
    shape = made.shape or (0, 0, 0)
    facts = (
        *((shown(line.place, f"returns {shaped(shape)}: {shape[0]} steps of {shape[1]} samples."),) if line else ()),
        *((shown(used.place, f"takes the {shape[0]} for samples, and so does the loss."),) if used else ()),
    )
    return warning(
        "BS147",
        f"{path} takes the samples of the batch for steps in time: batch_first is not set.",
        facts,
        f"Create it with batch_first=True: nn.{kind}(..., batch_first=True).",
        line,
        nodes=(made.index,),
    )
