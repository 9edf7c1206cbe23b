"""BS147: dimensions are taken for one another: samples for steps in time, or classes for pixels."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator

import torch

from backsight.diagnosis.amending import expression_of, instead, with_keyword
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.rules.registry import rule
from backsight.diagnosis.rules.softmax_dim import compares
from backsight.diagnosis.scene import Scene
from backsight.diagnosis.wording import if_known, shaped, warning
from backsight.source import calls_of, only
from backsight.source.body import callee
from backsight.source.edits import OR
from backsight.source.rewriting import simple
from backsight.story.holders import given, users
from backsight.tape import Node
from backsight.tape.modules import ModelTree
from backsight.tracing import Line

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
    return warning(
        "BS147",
        f"{path} takes the samples of the batch for steps in time: batch_first is not set.",
        (
            if_known(line, f"returns {shaped(shape)}: {shape[0]} steps of {shape[1]} samples."),
            if_known(used, f"takes the {shape[0]} for samples, and so does the loss."),
        ),
        f"Create it with batch_first=True: nn.{kind}(..., batch_first=True){with_batch_first(scene.site[0], kind)}.",
        line,
        nodes=(made.index,),
    )


def with_batch_first(file: str, kind: str) -> str:
    """Give batch_first to the one call of a file that makes such a layer."""
    found = only(each for each in calls_of(file) if callee(each[2])[1] == kind)
    return instead(*found[:2], with_keyword(found[0], found[2], "batch_first", "True")) if found is not None else ""


_VIEWS = frozenset({"View", "UnsafeView", "ReshapeAlias"})
_CHANNELS_SECOND = ("Convolution", "Upsample")
"""Operations whose result has its channels second, by what their names begin with."""


def classes_of_pixels(scene: Scene) -> Iterator[Finding]:
    """A log-softmax over rows into which a view has cut what a convolution returns, N×C×H×W: each row is a run of C
    neighboring pixels of one channel, and not the C channels of one pixel."""
    for node in scene.graph.nodes:
        view = next(iter(given(node)), None) if node.op == "LogSoftmax" else None
        made = next(iter(given(view)), None) if view is not None and view.op in _VIEWS else None
        if view is None or made is None or not made.op.startswith(_CHANNELS_SECOND) or not made.shape:
            continue
        pixels = math.prod(made.shape[2:])
        if len(made.shape) > 2 and pixels > 1 and view.shape == (made.shape[0] * pixels, made.shape[1]):
            yield _finding_of_pixels(scene, made, view)


def _finding_of_pixels(scene: Scene, made: Node, view: Node) -> Finding:
    before, after = made.shape or (), view.shape or ()
    line = scene.line_of(view)
    last = ", ".join(map(str, (0, *range(2, len(before)), 1)))
    moved = f".permute({last}).reshape(-1, {after[1]})"
    does = "moves no entry: a row holds pixels of a class, not classes of a pixel."
    return warning(
        "BS147",
        f"The scores of {after[1]} classes are mixed with pixels: a view cuts {shaped(before)} into {shaped(after)}.",
        (if_known(line, does), "The loss compares these rows with the classes of the pixels."),
        f"Move the classes last before the view: {moved}{_reshaped(line, moved)}. {OR}Or pass cross_entropy the "
        f"scores themselves, {shaped(before)}, with targets of {shaped((before[0], *before[2:]))}.",
        line,
        nodes=(view.index,),
    )


def _reshaped(line: Line | None, moved: str) -> str:
    """Move dimensions where a method makes the view."""
    body, statement, node = expression_of(line)
    if body is None or not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return ""
    is_view = node.func.attr in ("view", "reshape")
    return instead(body, statement, {node: f"{simple(body.text(node.func.value))}{moved}"}) if is_view else ""
