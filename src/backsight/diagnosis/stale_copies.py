"""BS138: copies that compute the gradients, and stay as they were while the model that takes these moves.

And a network that is loaded again and again with the state of the start.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from types import FrameType

import torch

from backsight.diagnosis.amending import added, written
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.program import calls_around, files_around, program_frames, statements_around
from backsight.diagnosis.twins import Twin
from backsight.diagnosis.wording import counted, numbered, shown, warning
from backsight.naming import search
from backsight.source import Place, function_at, only, statement_at
from backsight.source.averaging import Writes, writes
from backsight.source.bindings import assigned
from backsight.source.body import LOOPS, callee, dotted, statements
from backsight.tape import parameters_in

CODES = ("BS138",)


def gathered(twin: Twin, reached: Collection[int], since: int, steps: int, frame: FrameType) -> Finding | None:
    """Return the finding that a model is trained with the gradients of a copy that stays as it was.

    reached: the ids of the leaves that losses were seen to depend on: those of the copy, and none of the model's.
    """
    target, trained = twin.target(), twin.trained()
    if target is None or trained is None or not twin.is_unchanged:
        return None
    copies, held = list(parameters_in(target)), list(parameters_in(trained))
    if not any(id(p) in reached and p.grad is not None for p in copies) or any(id(p) in reached for p in held):
        return None
    if not any(p.grad is not None for p in held):
        return None
    name, other = (_named(each) for each in (target, trained))
    if not name or not other:
        return None
    gathers = list(dict.fromkeys(_gatherings(frame)))
    place = only(gathers)
    refresh, load = _refreshing(frame, other), f"{name}.load_state_dict({other}.state_dict())"
    return warning(
        "BS138",
        f"{name} never changes, although {other} is trained with its gradients.",
        (
            f"The losses depend on {name} and not on {other}. Its parameters have been bit-identical since step "
            f"{numbered(since)}, for {counted(steps, 'step')}, so these are gradients at old weights.",
            shown(place, f"gives {other} the gradients.") if place is not None else None,
            shown(refresh, "copies the weights, but not after each step.", "read") if refresh is not None else None,
        ),
        f"Call {refresh.text} after each optimizer step{_after_step(frame, refresh.text)}."
        if refresh is not None
        else f"Copy the weights after each optimizer step: {load}{_after_step(frame, load)}.",
        refresh or place,
        since=since,
    )


def _after_step(frame: FrameType, code: str) -> str:
    """Run a statement after that which a frame runs, which makes a step."""
    around = next(program_frames(frame), None)
    body = function_at(around.f_code) if around is not None else None
    statement = statement_at(body, around.f_lineno) if body is not None and around is not None else None
    return added(code, "beside", body.place(statement)) if body is not None and statement is not None else ""


def _named(module: torch.nn.Module) -> str:
    return next((name.path for name in search([module], limit=1).names[0]), "")


def _gatherings(frame: FrameType) -> Iterator[Place]:
    """Yield the statements that give a parameter a gradient: `p.grad = ...`."""
    for body, each in statements_around(frame):
        if any(isinstance(goal, ast.Attribute) and goal.attr == "grad" for goal, _ in assigned(each)):
            yield body.place(each)


def _refreshing(frame: FrameType, other: str) -> Place | None:
    """Return the one call of a function that writes the weights of a model into those of others."""
    trained = {name.path.split(".")[-1] for each in _modules(other) for name in search([each]).names[0]}
    functions = {
        each.body.name
        for file in files_around(frame)
        for each in writes(file)
        if each.how in ("blends", "loads") and each.origin.split(".")[-1] in trained
    } - {"", "__init__"}
    return only(
        body.place(statement, ast.unparse(call))
        for body, statement, call in calls_around(frame)
        if callee(call)[1] in functions
    )


def _modules(path: str) -> list[torch.nn.Module]:
    found = search((), collect=(torch.nn.Module,)).found
    return [each for each, name in found if isinstance(each, torch.nn.Module) and name.path == path]


def loads_the_start(twin: Twin, since: int, loads: int, frame: FrameType) -> Finding | None:
    """Return the finding that a twin is loaded again and again with values that it has already."""
    target, trained = twin.target(), twin.trained()
    if target is None or trained is None:
        return None
    name, other, names = _named(target), _named(trained), twin.names
    found = [each for file in files_around(frame) for each in writes(file) if each.target.split(".")[-1] in names]
    found = list({each.place: each for each in found if each.how == "loads"}.values())
    if len(found) != 1 or found[0].origin or not name or not other:
        return None
    kept = _kept(frame, _state(found[0]))
    load = f"{found[0].target}.load_state_dict({_written(other, found[0])}.state_dict())"
    if kept is None:
        return None
    return warning(
        "BS138",
        f"{name} never changes, although it should follow {other}.",
        (
            f"It was loaded at least {loads} times since step {numbered(since)}, with the values it already had.",
            shown(found[0].place, "loads the same values each time.", "read"),
            shown(kept, "stores them once; training does not change them.", "read"),
        ),
        f"Load what {other} has learned: {load}{written(found[0].place, load)}.",
        found[0].place,
        since=since,
    )


def _state(found: Writes) -> str:
    calls = (
        call
        for each in statements(found.body.node)
        if each.lineno == found.place.line
        for call in ast.walk(each)
        if isinstance(call, ast.Call) and callee(call)[1] == "load_state_dict" and call.args
    )
    return next((dotted(call.args[0]) or "" for call in calls), "")


def _kept(frame: FrameType, state: str) -> Place | None:
    """Return the one statement that gives a state its name, if it is in no loop and a function that begins."""
    if not state:
        return None
    found = [
        (body, each)
        for body, each in statements_around(frame)
        if any(dotted(goal) == state for goal, _ in assigned(each))
    ]
    if len(found) != 1:
        return None
    body, kept = found[0]
    loops = (each for each in statements(body.node) if isinstance(each, LOOPS))
    if any(each.lineno < kept.lineno <= (each.end_lineno or 0) for each in loops):
        return None
    return body.place(kept) if getattr(body.node, "name", "__init__") == "__init__" or "." not in state else None


def _written(other: str, found: Writes) -> str:
    """Write what is trained as the function around a statement does: `self.policy` for `agent.policy`."""
    last = other.split(".")[-1]
    return f"self.{last}" if found.target.startswith("self.") and "." in other else other
