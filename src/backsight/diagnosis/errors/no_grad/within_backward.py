"""A derivative that the backward of a custom Function takes: it runs with gradients disabled."""

from __future__ import annotations

from backsight.diagnosis.errors.no_grad.scene import Scene
from backsight.diagnosis.errors.registry import explanation
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import failing, shown
from backsight.story.enabling import computing, enabled, run_by_engine
from backsight.story.memory import holds_gradient


def within_backward(scene: Scene) -> Finding | None:
    """What was differentiated was computed in the backward of a custom Function, which records nothing."""
    level = run_by_engine(scene.failure)
    if level is None or level.body is None or level.statement is None:
        return None
    held = [name for name, value in level.variables.items() if holds_gradient(value)]
    inner = scene.failure.user or level
    if not held and not any(map(holds_gradient, (*scene.failure.inputs, *inner.variables.values()))):
        return None
    lines = computing(level.body, level.statement, held)
    first, fix = level.body.place(lines[0]), enabled(lines, level.body)
    return explanation(
        scene.title("the backward of a custom Function runs with gradients disabled"),
        (
            f"{level.function.rpartition('<locals>.')[2]} is called by autograd, which disables gradients there.",
            shown(first, "runs there, so it has no graph.") if lines[0] is not level.statement else None,
            *failing(scene.failure, "has nothing to backpropagate through."),
        ),
        f"{fix[0].upper()}{fix[1:]}.",
        source=first,
    )
