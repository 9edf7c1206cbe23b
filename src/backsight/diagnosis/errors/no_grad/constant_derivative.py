"""A derivative that is the same for every input: it has no graph, whatever was asked for."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import torch

from backsight.diagnosis.errors.gradient_call import gradient_call, gradient_calls
from backsight.diagnosis.errors.no_grad.scene import Scene
from backsight.diagnosis.errors.registry import explanation
from backsight.diagnosis.evidence.spoken import differentiated, passed
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import failing, shown
from backsight.snapshot import survey
from backsight.source.bindings import uses
from backsight.source.body import is_constant, keyword, read_at
from backsight.source.edits import on_line, put
from backsight.story.failure import Level
from backsight.story.handed import Handed, handed
from backsight.story.memory import is_tensor, needs_gradient
from backsight.text import begun


def constant_derivative(scene: Scene) -> Finding | None:
    """What is differentiated again was itself taken with create_graph=True, of what has a graph."""
    failure = scene.failure
    for name, known in _derivatives(scene) if failure.call == "grad" else ():
        call, of = next(gradient_calls(*read_at(known.made)), None), _differentiated(known)
        if call is None or of is None or not is_constant(keyword(call.node, "create_graph"), True):
            continue
        if any(node.kind == "custom" for node in survey((of[1],), frames=failure.frames).graph.nodes):
            continue
        made = handed(failure, of[1])
        outer = made.name if made else of[0]
        here = failure.user is not None and known.made == failure.user.place
        taken = (known.assigned if here else None) or known.made or call.place
        return explanation(
            scene.title(f"the derivative of {outer} is a constant"),
            (
                shown(made.made, f"computes {outer}.") if made and made.made else None,
                shown(taken, f"takes the derivative of {outer}. It is the same for every input, so it has no graph."),
                *passed(known),
                *failing(failure, "takes its derivative, which is zero."),
            ),
            _zeros(scene, name),
            source=taken,
        )
    return None


def _derivatives(scene: Scene) -> Iterator[tuple[str, Handed]]:
    """What the failing line differentiates, or computes that from, with the name that it has there."""
    level, receiver = scene.failure.user, None if scene.failure.user is None else scene.failure.user.receiver
    if level is None or receiver is None:
        return
    read = [use.name for use in uses(ast.parse(receiver, mode="eval")) if not use.binds]
    held = [(name, value) for name in dict.fromkeys(read) if is_tensor(value := level.value(name))]
    if held and not any(needs_gradient(value) for _, value in held):
        found = ((name, handed(scene.failure, value)) for name, value in held)
        yield from ((name, known) for name, known in found if known is not None)


def _differentiated(known: Handed) -> tuple[str, torch.Tensor] | None:
    """What such a derivative was taken of, in the function that has a variable for it: its only tensor with a graph."""
    level: Level = known.level
    statement = read_at(known.assigned)[1]
    names = dict.fromkeys(use.name for use in uses(statement) if not use.binds) if statement is not None else ()
    values = [(name, value) for name in names if is_tensor(value := level.value(name)) and value.grad_fn is not None]
    return values[0] if len(values) == 1 else None


def _zeros(scene: Scene, name: str) -> str:
    """The failing statement, with zeros where its derivative is a constant."""
    inputs, call = differentiated(scene.failure), gradient_call(scene.failure.user)
    if call is None or not inputs:
        return f"Where {name} does not require grad, use zeros for its derivative."
    body, statement, place, part = call.body, call.statement, call.place, call.taken
    value, zeros = getattr(statement, "value", None), [f"torch.zeros_like({each})" for each in inputs]
    if part is not None and value is part and body.text(part.slice) == "0" and len(zeros) == 1:
        if isinstance(statement, ast.Return):
            early = f"if not {name}.requires_grad: return {zeros[0]}"
            return f"Above line {place.line}, put `{early}`{put(early, 'above', place)}."
        other = zeros[0]
        line = call.rewritten({part: f"{body.text(part)} if {name}.requires_grad else {other}"})
    else:
        other = f"({', '.join(zeros)},)"
        new = f"{body.text(call.node)} if {name}.requires_grad else {other}"
        line = call.rewritten({call.node: new if value is call.node else f"({new})"})
    if line and "…" not in line:
        return f"{begun(on_line(place, line))}."
    return f"Where {name}.requires_grad is False, use {other} instead of the result of line {place.line}."
