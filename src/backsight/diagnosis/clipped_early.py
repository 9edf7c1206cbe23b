"""BS124: clipping that comes before the backward, so that there is nothing to clip."""

from __future__ import annotations

import ast
import threading
from collections.abc import Sequence

import torch

from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import shown, warning
from backsight.source import Place
from backsight.source.bindings import spots
from backsight.source.body import callee
from backsight.story.evaluated import value_of
from backsight.story.failure import Level
from backsight.story.stepping import steps_in
from backsight.tape import parameters_in
from backsight.tracing import current


def clipped_early(
    level: Level, clippings: Sequence[tuple[Place, ast.Call]], backwards: Sequence[Place], zeroing: Sequence[Place]
) -> Finding | None:
    """Return that what one iteration clips are the gradients of the one before, or none, by its statements in order.

    A watch has to have seen that no other backward ran since the last step: the loss may be a helper's affair.
    """
    steps = [each for each in steps_in(level) if each.place == level.place]
    if not (clippings and backwards and zeroing and steps):
        return None
    (place, call), began = clippings[-1], backwards[0]
    in_order = place.position < began.position and backwards[-1].position < level.place.position
    ids = _ids(level, call.args[0] if call.args else None)
    if not in_order or not ids or not steps[0].trained or not ids & steps[0].trained:
        return None
    if not _is_one_block(level, place, began) or not _ran_alone({(each.file, each.line) for each in backwards}):
        return None
    return warning(
        "BS124",
        "The gradients are clipped before backward() computes them, so clipping has no effect.",
        (
            shown(place, "finds no gradients of this step."),
            shown(began, "computes them later."),
            shown(level.place, "uses them unclipped."),
        ),
        f"Move line {place.line} between `{began.text}` and `{level.place.text}`.",
        place,
        since=1,
    )


def _ids(level: Level, given: ast.expr | None) -> set[int]:
    """Return the ids of the parameters of `model.parameters()`, or in a list."""
    if isinstance(given, ast.Call) and callee(given)[1] == "parameters":
        model = value_of(level, callee(given)[0])
        return {id(p) for p in parameters_in(model)} if isinstance(model, torch.nn.Module) else set()
    held = value_of(level, given)
    return {id(each) for each in held} if type(held) in (list, tuple) else {id(held)}  # type: ignore[attr-defined]


def _is_one_block(level: Level, clipping: Place, began: Place) -> bool:
    """Whether the backward and the step run as often as one another, and a clipping no more often."""
    branches = {each.node.lineno: each.branches for each in spots(level.body.node)} if level.body is not None else {}
    backward = branches.get(began.line, ())
    return backward == branches.get(level.place.line) and branches.get(clipping.line, ())[: len(backward)] == backward


def _ran_alone(lines: set[tuple[str, int]]) -> bool:
    """Whether all backwards of this thread since its last step but one ran on these lines."""
    watch, thread = current(), threading.get_ident()
    past = list(watch.steps.past.get(thread, ())) if watch is not None else []
    if watch is None or len(past) < 2:
        return False
    since = [each for each in watch.backwards if each.marks.get(thread, 0) > past[-2]]
    return bool(since) and all(each.line is not None and (each.line.file, each.line.line) in lines for each in since)
