"""A weight that was updated by hand into a new tensor, which no longer asks for a gradient: `w = w - lr * w.grad`."""

from __future__ import annotations

import torch

from backsight.diagnosis.errors.no_grad.scene import Scene
from backsight.diagnosis.evidence.failure import Level
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import shown
from backsight.source import Place
from backsight.source.ancestry import ancestors
from backsight.source.bindings import Use, uses
from backsight.source.definitions import flow_of
from backsight.source.leaf_last import asks_for_gradient


def rebound(scene: Scene) -> Finding | None:
    """A variable that was made to be trained holds a plain tensor now, and a statement computes it from itself."""
    for level in scene.failure.users:
        if level.body is None or not level.receiver:
            continue
        for name in ancestors(level.body, level.receiver, level.line):
            value = level.value(name)
            found = _update(level, name) if isinstance(value, torch.Tensor) and not value.requires_grad else None
            if found is not None:
                return _finding(scene, name, *found)
    return None


def _update(level: Level, name: str) -> tuple[Place, Place] | None:
    """The statement that asks for the gradient of `name`, and the one that replaces it by what it computes from it."""
    assert level.body is not None
    made = update = None
    flow = flow_of(level.body.node)
    for spot, _ in reversed(flow.touched(name, 0, len(flow.spots))):
        if asks_for_gradient(spot.node):
            made = made or level.body.place(spot.node)
        elif {Use(name, True), Use(f"{name}.grad", False)} <= set(uses(spot.node)):
            update = level.body.place(spot.node)
    return (made, update) if made and update else None


def _finding(scene: Scene, name: str, made: Place, update: Place) -> Finding:
    level = scene.failure.user
    return Finding(
        "BS203",
        "error",
        scene.title(f"{name} is another tensor since its update, and that one does not"),
        (
            shown(made, f"makes {name}, with requires_grad."),
            shown(update, f"puts a new tensor into {name}, computed without a history: it does not require grad."),
            *((shown(level.place, "finds nothing to go back through."),) if level else ()),
            f"(That the update ran is read from the source text; that {name} does not require grad now is seen.)",
        ),
        f"Change {name} in place, so that it stays the leaf it was: `with torch.no_grad(): "
        f"{name} -= lr * {name}.grad`, and {name}.grad = None after that. Or let an optimizer do it.",
        source=str(update),
        exact=False,
    )
