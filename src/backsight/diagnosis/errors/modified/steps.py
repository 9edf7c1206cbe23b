"""An optimizer changed the saved weight: `step()` ran between the forward pass and its backward."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import torch

from backsight.diagnosis.errors.modified.case import Case
from backsight.diagnosis.errors.second_backward import case as second
from backsight.diagnosis.failure import Level
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.holders import results_in
from backsight.diagnosis.wording import shown
from backsight.snapshot.survey import Survey
from backsight.source import Place, optimizer_steps, statement_at
from backsight.source.ancestry import Ancestor
from backsight.source.bindings import uses
from backsight.source.body import dotted, expressions


def changed_by_step(case: Case) -> Finding | None:
    """The saved tensor is a weight that an optimizer holds, and the frames show a step of that optimizer."""
    leaf = case.leaf
    optimizer = case.survey.optimizers.get(leaf.owner) if leaf and leaf.owner else None
    if leaf is None or optimizer is None:
        return None
    steps = second.Case(case.failure, case.survey)
    for level in case.failure.users:
        for place, name in _steps_of(level, optimizer):
            if place.line < level.line:
                return _before_backward(case, steps, level, place, name)
            carried = _carried(steps, level)
            if carried:
                return _through_history(case, steps, level, place, name, carried)
    return None


def _steps_of(level: Level, optimizer: torch.optim.Optimizer) -> Iterator[tuple[Place, str]]:
    """The statements that step `optimizer`, the last before the line of the level first, and what they call it."""
    if level.body is None:
        return
    places = optimizer_steps(level.body)
    for place in sorted(places, key=lambda each: (each.line >= level.line, -each.line)):
        statement = statement_at(level.body, place.line)
        names = [use.name for use in uses(statement) if not use.binds] if statement else []
        name = next((name for name in names if level.value(name) is optimizer), None)
        if name:
            yield place, name


def _before_backward(case: Case, steps: second.Case, level: Level, place: Place, optimizer: str) -> Finding:
    assert case.leaf is not None
    weight = case.leaf.label
    loss = steps.loss if level is case.failure.user else "the loss"
    forward = _forward(case, level, steps.ancestors(level), place)
    lines = [shown(place, f"changes {weight} in place, with all that {optimizer} holds.")]
    if forward:
        what = f"uses {weight}, and saves it for backward"
        lines.insert(0, shown(forward, f"{what}: the gradient of what it was multiplied with needs it."))
    lines.append(shown(level.place, f"needs the weights as they were: {case.versions}."))
    watched = case.node.index in steps.old
    if watched:
        lines.append(f"{case.node.name} was made before the last optimizer step, as the running watch has noted.")
    return Finding(
        "BS202",
        "error",
        f"{optimizer}.step() changed {weight} between the forward pass of {loss} and its backward.",
        tuple(lines),
        f"Compute {loss} after {optimizer}.step(), with a new forward pass. Or call backward on every loss before the "
        "first optimizer steps.",
        source=str(place),
        exact=watched or forward is not None,
    )


def _forward(case: Case, level: Level, names: dict[str, Ancestor], step: Place) -> Place | None:
    """The last statement before the step that calls the model which owns the weight, on the way to the loss."""
    places = {place.line: place for each in names.values() for place in (*each.bound, each.read)}
    for line in sorted((line for line in places if line < step.line), reverse=True):
        statement = statement_at(level.body, line) if level.body else None
        for node in expressions(statement) if statement else ():
            name = dotted(node.func) if isinstance(node, ast.Call) else dotted(node)
            if name and _owns(level.value(name), case):
                return places[line]
    return None


def _owns(value: object, case: Case) -> bool:
    """Whether `value` is the weight, or a module that holds it."""
    weight = case.leaf.tensor() if case.leaf else None
    if value is weight:
        return weight is not None
    if not issubclass(type(value), torch.nn.Module):
        return False
    return any(each is weight for each in torch.nn.Module.parameters(value))  # type: ignore[arg-type]  # a module


def _carried(steps: second.Case, level: Level) -> Ancestor | None:
    """A variable that takes a result with its history from one iteration, or one call, into the next."""
    names = steps.ancestors(level)
    for facts in second.loops(level):
        for name, ancestor in names.items():
            if name in facts.carried and results_in(level.value(name)):
                return ancestor
    attributes = (each for name, each in names.items() if "." in name and each.entering and each.bound)
    return next((each for each in attributes if results_in(level.value(each.name))), None)


def _through_history(
    case: Case, steps: second.Case, level: Level, place: Place, optimizer: str, carried: Ancestor
) -> Finding:
    assert case.leaf is not None
    weight, name = case.leaf.label, carried.name
    watched = case.node.index in steps.old
    lines = [
        shown(carried.read, f"reads {name} as the iteration before left it, with its history."),
        shown(place, f"has changed {weight} in place since, which that history saved."),
        shown(level.place, f"goes back into it: {case.versions}."),
    ]
    if not watched:
        lines.append(
            "(Read from the source text. Under `backsight run`, which notes every optimizer step, it is exact.)"
        )
    cut = f"{name} = {name}.detach()"
    if len(results_in(level.value(name))) > 1:
        cut = f"{name} = tuple(h.detach() for h in {name})"
    return Finding(
        "BS202",
        "error",
        f"{name} leads this backward into an earlier iteration, whose weights {optimizer}.step() has changed since.",
        tuple(lines),
        f"Cut the history after each step: {cut}. Then backward needs no retain_graph=True either.",
        source=str(carried.read),
        exact=watched,
    )
