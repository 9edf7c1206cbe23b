"""BS224: a step is skipped because of its unscaled gradients, and the scaler's update() with it.

Such an unscale_() cannot go under the condition, which is computed from what it has done.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch

from backsight.diagnosis.errors.scaler_calls import Call, Misused
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import if_known, listed, shown
from backsight.source import Place
from backsight.source.bindings import Spot, bound, names_read, prefixes, spots, uses
from backsight.source.body import callee, calls_in, expressions, statements
from backsight.source.edits import move
from backsight.story.memory import is_module
from backsight.story.scenes import called_function
from backsight.story.sections import Section
from backsight.tape import tensors_in


class Skipped(NamedTuple):
    """A condition that skips update(): in its function, the call that unscales, the one that updates, and whether
    something else than the gradients decides, too."""

    condition: ast.If
    unscaling: Call
    updating: Call
    mixed: bool


def skipped(misused: Misused, here: Call, updates: Sequence[Call], title: str) -> Finding | None:
    """A condition on the unscaled gradients skips step() and update(), after which the next unscale_() fails."""
    case = next(filter(None, (_skipped(misused, here, each) for each in updates)), None)
    if case is None:
        return None
    place, update = case.updating.section.body.place(case.condition), f"{misused.name}.update()"
    inner = "" if update in case.updating.place.text else f", and {update} in it"
    return misused.told(
        title,
        case.updating.place,
        [
            if_known(misused.asked, f"calls {here.method}()."),
            shown(place, "decides from the unscaled gradients that a step is skipped."),
            shown(case.updating.place, f"is skipped{inner}: the next {here.method}() fails."),
        ],
        _moved(misused, case, updates),
    )


def clears_always(misused: Misused, here: Call) -> bool:
    """Whether gradients are cleared in each pass that unscales them, so that they do not accumulate."""
    zeroed = [each for each in misused.calls if each.method == "zero_grad"]
    pairs = (next(_together(misused, here, each), (here, each)) for each in zeroed)
    return any(all(each in at.conditions for each in cleared.conditions) for at, cleared in pairs)


def _together(misused: Misused, one: Call, other: Call) -> Iterator[tuple[Call, Call]]:
    """Where two calls are made in one function, each by itself or by a function that it calls; the innermost first."""
    for mine in _from(misused, one):
        for theirs in _from(misused, other):
            if mine.section.body.node is theirs.section.body.node:
                yield mine, theirs


def _skipped(misused: Misused, here: Call, update: Call) -> Skipped | None:
    for unscaling, updating in _together(misused, here, update):
        after = [each for each in updating.conditions if each not in unscaling.conditions]
        parts = [(each, part) for each in after if isinstance(each, ast.If) for part in _parts(each.test)]
        read = [(each, _reads_gradients(unscaling, each, part)) for each, part in parts]
        found = [each for each, of_gradients in read if of_gradients]
        if found and unscaling.spot.order < updating.spot.order:
            return Skipped(found[0], unscaling, updating, not all(of_gradients for _, of_gradients in read))
    return None


def _from(misused: Misused, call: Call) -> list[Call]:
    """A call, and those of the function around it: where another function has it done."""
    found = [call]
    for each in misused.calls:
        inner = called_function(each.section, each.node)
        if inner is not None and inner.body.node is call.section.body.node is not each.section.body.node:
            found.append(each)
    return found


def _parts(test: ast.expr) -> list[ast.expr]:
    """What has to hold, each by itself."""
    return test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]


def _reads_gradients(unscaling: Call, condition: ast.If, test: ast.expr) -> bool:
    """Whether a condition is computed, after the gradients are unscaled, from them."""
    section = unscaling.section
    since = [each for each in spots(section.body.node) if each.order >= unscaling.spot.order]
    since = [each for each in since if each.node.lineno < condition.lineno]
    queue: list[ast.expr] = [test]
    seen: set[int] = set()
    for value in queue:  # grows as we go
        if _takes_gradients(section, value):
            return True
        names = names_read(value)
        for spot in since:
            if spot.order in seen or not names & bound(spot.node):
                continue
            seen.add(spot.order)
            if spot.node is unscaling.spot.node:
                return True
            queue += _behind(spot, since)
    return False


def _behind(spot: Spot, since: Sequence[Spot]) -> Iterator[ast.expr]:
    """What a statement binds its names to, and the conditions under which it does."""
    value = getattr(spot.node, "value", None)
    if isinstance(value, ast.expr):
        yield value
    nodes = [each.node for each in since]
    yield from (arm.test for arm, _ in spot.arms if isinstance(arm, ast.If) and arm in nodes)


def _takes_gradients(section: Section, value: ast.expr) -> bool:
    """Whether an expression reads `.grad`, or gives a call what has gradients: a model, its parameters."""
    for node in expressions(ast.Expr(value)):
        if isinstance(node, ast.Attribute) and node.attr == "grad":
            return True
        if not isinstance(node, ast.Call):
            continue
        inner = called_function(section, node)
        if inner is not None and any(_is_of_gradients(each) for each in statements(inner.body.node)):
            return True
        given = {use.name for part in (node.func, *node.args) for use in uses(part) if not use.binds}
        if any(_has_gradients(section.value(each)) for name in given for each in prefixes(name)):
            return True
    return False


def _is_of_gradients(statement: ast.stmt) -> bool:
    clips = any("clip_grad" in callee(call)[1] for call in calls_in(statement))
    return clips or any(isinstance(node, ast.Attribute) and node.attr == "grad" for node in expressions(statement))


def _has_gradients(value: object) -> bool:
    if is_module(value) or isinstance(value, torch.optim.Optimizer):
        return True
    several = tensors_in(value) if isinstance(value, (list, tuple, torch.nn.Parameter)) else ()
    return any(isinstance(each, torch.nn.Parameter) for each in several)


def _moved(misused: Misused, case: Skipped, updates: Sequence[Call]) -> str:
    """How update() runs in each pass, and what clears the gradients of a skipped one, if nothing else does."""
    update = next(each for each in updates if case.updating in _from(misused, each))
    inner, section = update is not case.updating, case.updating.section
    sites = [each for each in _from(misused, update)[1:] if inner]
    if case.mixed:
        return (
            f"Call {update.method}() once after each unscale_(), also where the gradients make the step skip; unscale "
            "and clip only in the passes in which a step is due."
        )
    body = update.section.body.node
    cleared = [each for each in misused.calls if each.method == "zero_grad" and each.section.body.node is body]
    cleared = cleared[-1:] if not clears_always(misused, case.unscaling) else []
    moved = sorted([update, *cleared], key=lambda each: each.spot.order)
    receivers = [callee(each.node)[0] for each in moved]
    same = all(
        node is not None and section.value(update.section.body.text(node)) is each.receiver is not None
        for node, each in zip(receivers, moved, strict=True)
    )
    if len(sites) > 1 or (inner and not same):
        return f"Call update() once after each unscale_(), also in a step that line {case.condition.lineno} skips."
    lines = [str(each.place.line) for each in moved]
    text = "; ".join(each.place.text for each in moved)
    out = f"out of {update.section.body.name}(), below" if inner else "out of and below"
    return (
        f"Move line{'s' * (len(lines) > 1)} {listed(lines)}, `{text}`, {out} the condition on line "
        f"{case.condition.lineno}{_below(case, update, [each.place for each in moved])}: each unscale_() needs an "
        "update() before the next, also in a skipped step. "
        "unscale_() cannot go under that condition, which reads what it unscales."
    )


def _below(case: Skipped, update: Call, moved: Sequence[Place]) -> str:
    """These statements moved below the condition; not out of a function that has no others, or out of a file."""
    around, section = getattr(update.section.body.node, "body", ()), case.updating.section
    alone = update is not case.updating and len(around) <= len(moved)
    there = section.body.place(case.condition)
    return str(move(moved, "beside", there)) if not alone and there.file == moved[0].file else ""
