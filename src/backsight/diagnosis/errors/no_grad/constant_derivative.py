"""A derivative that is the same for every input: it has no graph, whatever was asked for."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import torch

from backsight.diagnosis.errors.no_grad.scene import Scene
from backsight.diagnosis.errors.registry import explanation
from backsight.diagnosis.evidence.spoken import differentiated, passed
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import failing, shown
from backsight.snapshot import survey
from backsight.source.bindings import uses
from backsight.source.body import calls_in, is_constant, keyword, read_at
from backsight.source.edits import put, write
from backsight.source.imports import is_gradient_call
from backsight.source.rewriting import rewritten
from backsight.story.failure import Level
from backsight.story.handed import Handed, handed
from backsight.story.memory import is_tensor, needs_gradient


def constant_derivative(scene: Scene) -> Finding | None:
    """What is differentiated again was itself taken with create_graph=True, of what has a graph."""
    failure = scene.failure
    for name, known in _derivatives(scene) if failure.call == "grad" else ():
        statement = read_at(known.made)[1]
        call = next((each for each in calls_in(statement) if is_gradient_call(each)), None)
        if call is None or known.made is None or not is_constant(keyword(call, "create_graph"), True):
            continue
        of = _differentiated(known)
        if of is None or any(node.kind == "custom" for node in survey((of[1],), frames=failure.frames).graph.nodes):
            continue
        made = handed(failure, of[1])
        outer = made.name if made else of[0]
        taken = (
            known.made
            if known.assigned is None or failure.user is None or known.made != failure.user.place
            else known.assigned
        )
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
    level, inputs = scene.failure.user, differentiated(scene.failure)
    statement, body = (level.statement, level.body) if level else (None, None)
    call = next((each for each in calls_in(statement) if is_gradient_call(each)), None)
    if level is None or body is None or statement is None or call is None or not inputs:
        return f"Where {name} does not require grad, use zeros for its derivative."
    value, zeros = getattr(statement, "value", None), [f"torch.zeros_like({each})" for each in inputs]
    if isinstance(value, ast.Subscript) and value.value is call and body.text(value.slice) == "0" and len(zeros) == 1:
        if isinstance(statement, ast.Return):
            early = f"if not {name}.requires_grad: return {zeros[0]}"
            return f"Above line {level.line}, put `{early}`{put(early, 'above', level.place)}."
        whole: ast.expr = value
        other = zeros[0]
        new = f"{body.text(value)} if {name}.requires_grad else {other}"
    else:
        whole, other = call, f"({', '.join(zeros)},)"
        new = f"({body.text(call)} if {name}.requires_grad else {other})"
    line = rewritten(body, statement, {whole: new[1:-1] if whole is value is call else new})
    if line and "…" not in line:
        return f"On line {level.line}, write `{line}`{write(level.place, line)}."
    return f"Where {name}.requires_grad is False, use {other} instead of the result of line {level.line}."
