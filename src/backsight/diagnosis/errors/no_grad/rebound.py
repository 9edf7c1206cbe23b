"""A weight that was replaced by a new tensor, which no longer asks for a gradient.

By an update by hand, `w = w - lr * w.grad`, or by a statement that cuts it off: `w = w.clamp(min=0).detach()`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

import torch

from backsight.diagnosis.errors.no_grad.scene import Scene
from backsight.diagnosis.errors.registry import explanation
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import shown
from backsight.source import Place, assignments, lets_through
from backsight.source.ancestry import ancestors
from backsight.source.bindings import Use, uses
from backsight.source.definitions import flow_of
from backsight.source.in_place import in_place
from backsight.source.leaf_last import asks_for_gradient
from backsight.story.failure import Level


def rebound(scene: Scene) -> Finding | None:
    """A variable that was made to be trained holds a plain tensor now: its update by its gradient is a new tensor."""
    return _replaced(scene, _updates)


def cut_from_itself(scene: Scene) -> Finding | None:
    """As `rebound`, by a statement that detaches the variable; nothing else that the loss is made of has a history."""
    return None if scene.sources.require_grad else _replaced(scene, _detaches)


def _updates(statement: ast.stmt, name: str) -> bool:
    return {Use(name, True), Use(f"{name}.grad", False)} <= set(uses(statement))


def _detaches(statement: ast.stmt, name: str) -> bool:
    return {Use(name, True), Use(name, False)} <= set(uses(statement)) and not lets_through(statement, name)


def _replaced(scene: Scene, replaces: Callable[[ast.stmt, str], bool]) -> Finding | None:
    for level in scene.failure.users:
        if level.body is None or not level.receiver:
            continue
        for name in ancestors(level.body, level.receiver, level.line):
            value = level.value(name)
            lost = isinstance(value, torch.Tensor) and not value.requires_grad
            found = _update(level, name, replaces) if lost else None
            if found is not None:
                return _finding(scene, name, *found, _fix(level, name, found[1]))
    return None


def _update(level: Level, name: str, replaces: Callable[[ast.stmt, str], bool]) -> tuple[Place, Place] | None:
    """The statement that asks for the gradient of `name`, and the one that replaces it by what it computes from it."""
    assert level.body is not None
    made = update = None
    flow = flow_of(level.body.node)
    for spot, _ in reversed(flow.touched(name, 0, len(flow.spots))):
        if asks_for_gradient(spot.node):
            made = made or level.body.place(spot.node)
        elif replaces(spot.node, name):
            update = level.body.place(spot.node)
    return (made, update) if made and update else None


def _fix(level: Level, name: str, update: Place) -> str:
    """How to change the leaf itself: as the last statement that computes `name` from `name` does."""
    if f"{name}.grad" in update.text:
        return (
            f"Modify {name} in place, so it stays a leaf: `with torch.no_grad(): {name} -= lr * {name}.grad`, then "
            f"{name}.grad = None. Or let an optimizer do it."
        )
    assert level.body is not None
    changes = (in_place(level.body, name, place.line) for place in reversed(assignments(level.body, name)))
    change = next((each for each in changes if each), None)
    if change is None:
        return f"Remove line {update.line}, so {name} stays a leaf."
    return f"Modify {name} in place, so it stays a leaf: `with torch.no_grad(): {change}`."


def _finding(scene: Scene, name: str, made: Place, update: Place, fix: str) -> Finding:
    level = scene.failure.user
    return explanation(
        scene.title(f"{name} was replaced in its update by a tensor that does not"),
        (
            shown(made, f"creates {name} with requires_grad."),
            shown(
                update, f"assigns a new tensor to {name}, computed without a graph: it does not require grad.", "read"
            ),
            *((shown(level.place, "has nothing to backpropagate through."),) if level else ()),
        ),
        fix,
        source=str(update),
        exact=False,
    )
