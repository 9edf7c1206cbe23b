"""An optimizer changed the saved weight: `step()` ran between the forward pass and its backward."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import torch

from backsight.diagnosis.errors.modified.case import Case, owns
from backsight.diagnosis.errors.modified.detachable import detachable
from backsight.diagnosis.errors.modified.scenes import Scene, scenes
from backsight.diagnosis.errors.second_backward import case as second
from backsight.diagnosis.errors.second_backward.carried import detached, first_read
from backsight.diagnosis.evidence.evaluated import value_of
from backsight.diagnosis.evidence.failure import Level
from backsight.diagnosis.evidence.sections import Section
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import shown
from backsight.source import Place, assignments, optimizer_steps, statement_at
from backsight.source.ancestry import Ancestor
from backsight.source.body import expressions

Position = tuple[int, int]
_SEEN = "{} was made before the last optimizer step, as the running watch has noted."
_UNSEEN = "(Read from the source text. Under `backsight run`, which notes every optimizer step, it is exact.)"


def changed_by_step(case: Case) -> Finding | None:
    """The saved tensor is a weight that an optimizer holds, and the text shows a step of that optimizer."""
    leaf = case.leaf
    optimizer = case.survey.optimizers.get(leaf.owner) if leaf and leaf.owner else None
    if optimizer is None:
        return None
    steps = second.Case(case.failure, case.survey)
    for level in case.failure.users:
        for place, name in _steps_in(level, optimizer, level.place.position):
            if place.position < level.place.position:
                return _before_backward(case, steps, level, place, name)
            carried = _carried(steps)
            if carried or case.node.index in steps.old:
                return _through_history(case, steps, level, (place, name), carried)
    return next(
        (found for scene in scenes(case) if scene.call and (found := _aside(case, steps, scene, optimizer))), None
    )


def _steps_in(where: Level | Section, optimizer: torch.optim.Optimizer, here: Position) -> Iterator[tuple[Place, str]]:
    """The statements that step `optimizer`, the last before `here` first, and what they call it."""
    places = optimizer_steps(where.body) if where.body else ()
    before = [place for place in places if place.position < here]
    for place in (*reversed(before), *reversed(places[len(before) :])):
        statement = statement_at(where.body, *place.position) if where.body else None
        nodes = expressions(statement) if statement else ()
        name = next((node for node in nodes if value_of(where, node) is optimizer), None)
        if name is not None and where.body is not None:
            yield place, where.body.text(name)


def _before_backward(case: Case, steps: second.Case, level: Level, place: Place, optimizer: str) -> Finding:
    loss = steps.loss if level is case.failure.user else "the loss"
    return _between(case, steps, level, place, place, optimizer, loss)


def _aside(case: Case, steps: second.Case, scene: Scene, optimizer: torch.optim.Optimizer) -> Finding | None:
    """The step stands in a function that was called before the backward, and has returned."""
    place, name = next(_steps_in(scene.section, optimizer, (0, 0)), (None, ""))
    level = scene.caller.section.level if scene.caller else None
    if place is None or level is None or scene.call is None or scene.call.position >= level.place.position:
        return None
    return _between(case, steps, level, place, scene.call, name, steps.loss)


def _between(
    case: Case, steps: second.Case, level: Level, place: Place, call: Place, optimizer: str, loss: str
) -> Finding:
    """`place` steps the optimizer; `call`, the same or a call around it, stands before the line of `level`."""
    assert case.leaf is not None
    weight = case.leaf.label
    where = "" if call == place else f" It was called at line {call.line}: {call.text}"
    lines = [shown(place, f"changes {weight} in place, like all weights that {optimizer} holds.{where}")]
    forward = _forward(case, level, steps.ancestors(level), call)
    if forward:
        lines.insert(0, shown(forward, f"uses {weight}, and saves it: the gradient of a product needs both factors."))
    failed = case.failure.user or level
    lines.append(shown(failed.place, f"needs the original value of {weight}; {case.since}."))
    watched = case.node.index in steps.old
    lines += [_SEEN.format(case.node.name)] if watched else [] if forward else [_UNSEEN]
    return Finding(
        "BS202",
        "error",
        f"{optimizer}.step() changed {weight} between the forward pass of {loss} and its backward.",
        tuple(lines),
        _in_order(case, steps, level, optimizer, loss),
        source=str(place),
        exact=watched or forward is not None,
    )


def _in_order(case: Case, steps: second.Case, level: Level, optimizer: str, loss: str) -> str:
    """The fix; where the loss reaches the stepped weights through one value only, each way with what it does."""
    assert case.leaf is not None
    again = f"ompute {loss} after {optimizer}.step(), with a new forward pass"
    cut = detachable(steps, level, case.leaf.owner or "")
    if cut is None:
        return f"C{again}. Or call backward on every loss before the first optimizer steps."
    name, read = cut
    return (
        f"If {loss} is not to train what {optimizer} holds, use {name}.detach() in line {read.line}: then its "
        f"backward needs none of those weights. If it is, c{again}. (Backward on every loss before the first step "
        f"would run too, but {optimizer} then steps by the gradient of {loss} as well.)"
    )


def _forward(case: Case, level: Level, names: dict[str, Ancestor], step: Place) -> Place | None:
    """The last statement before the step that calls the model which owns the weight, on the way to the loss."""
    weight = case.leaf.tensor() if case.leaf else None
    places = {place.line: place for each in names.values() for place in (*each.bound, each.read)}
    for line in sorted((line for line in places if line < step.line), reverse=True):
        statement = statement_at(level.body, line) if level.body else None
        for node in expressions(statement) if statement else ():
            value = value_of(level, node.func if isinstance(node, ast.Call) else node)
            if weight is not None and (value is weight or owns(value, weight)):
                return places[line]
    return None


def _carried(steps: second.Case) -> tuple[str, Place, object] | None:
    """A variable that takes a result with its history from one iteration, or one call, into the next.

    With the statement that reads it as it was left, and how many tensors it holds.
    """
    for level in steps.failure.users:
        names = steps.ancestors(level)
        for facts in second.loops(level):
            for name in names:
                if name in facts.carried and steps.carries(level, name, read := facts.carried[name][0]):
                    return name, read, level.value(name)
        for name, each in names.items():
            assigned = assignments(level.body, name) if level.body and "." in name and each.entering else ()
            read = first_read(each, assigned)
            if assigned and steps.carries(level, name, read):
                return name, read, level.value(name)
    return None


def _through_history(
    case: Case, steps: second.Case, level: Level, step: tuple[Place, str], carried: tuple[str, Place, object] | None
) -> Finding:
    """No step stands between: then the backward reaches an iteration before the last step."""
    assert case.leaf is not None
    weight, (place, optimizer) = case.leaf.label, step
    name, read, held = carried or ("A result of an earlier iteration", None, None)
    watched = case.node.index in steps.old
    lines = [shown(read, f"reads {name} from the previous iteration, still attached to its graph.")] if read else []
    lines += [
        shown(place, f"has since modified {weight} in place; the earlier graph still needs the old value."),
        shown(
            level.place,
            f"backpropagates into that earlier graph, which needs the original value of {weight}; {case.since}.",
        ),
        _SEEN.format(case.node.name) if watched else _UNSEEN,
    ]
    cut = detached(name, held) if carried else "hidden = hidden.detach(), for what is carried over"
    return Finding(
        "BS202",
        "error",
        f"{name} leads this backward into an earlier iteration, whose weights {optimizer}.step() has changed since.",
        tuple(lines),
        f"Detach after each step: {cut}. Then backward needs no retain_graph=True either.",
        source=str(read or place),
        exact=watched,
    )
