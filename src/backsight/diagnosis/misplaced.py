"""What stands at the wrong place around an optimizer step, read from the function that makes it.

BS124: clipping that comes after the step, before the backward, or before a scaler's gradients are unscaled. BS127:
gradients that are zeroed for each batch where several are accumulated for a step.
"""

from __future__ import annotations

import ast
import gc
import itertools
import math
import operator
import threading
from collections.abc import Iterator, Sequence
from types import FrameType, GeneratorType
from typing import Literal

import torch

from backsight.diagnosis.amending import added, are_beside, written
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.program import ending, loops_around
from backsight.diagnosis.wording import if_known, shown, warning
from backsight.naming.plain import namespace
from backsight.source import Body, Place, backward_calls, only, read_at
from backsight.source.bindings import assigned, bound, names_read, spots
from backsight.source.body import callee, calls_in, dotted, functions, handed, keyword, statements
from backsight.source.edits import Edit, move
from backsight.source.imports import meaning
from backsight.story.evaluated import value_of
from backsight.story.failure import Level
from backsight.story.stepping import optimizer_steps, steps_in
from backsight.tape import parameters_in
from backsight.tracing import current

_CLIPPING = frozenset({"clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "clip_grad_norm"})


def misplaced(frame: FrameType) -> Finding | None:
    """Return what is wrong around the optimizer step of a function, by its text, within one loop or none."""
    level = Level(frame, frame.f_lineno)
    if level.body is None or level.statement is None:
        return None
    return _clipped(level, level.body) or _thrown_away(level, level.body)


def _clipped(level: Level, body: Body) -> Finding | None:
    first, last = _bounds(body, level.line)
    here = level.place.position
    every = [each for each in backward_calls(body) if first <= each.line <= last]
    backwards = [each.position for each in every]
    began = max((each for each in backwards if each < here), default=None)
    clippings = [(place, call) for place, call in _calls(body, _CLIPPING) if first <= place.line <= last]
    if not clippings:
        return _clipped_by_helper(level, body, first)
    if began is None:
        return None
    before = [place for place, _ in clippings if began < place.position < here]
    empty = next((each for each in clippings if each[0] in before and _is_used_up(_clipped_by(level, each[1]))), None)
    if empty is not None:
        return _nothing_clipped(body, *empty)
    if before:
        return _scaled(level, before[0], began)
    after = next(((place, call) for place, call in clippings if place.position > here), None)
    if after is None and len([each for each in optimizer_steps(level) if first <= each.line <= last]) == 1:
        limited = [each for each in clippings if not _measures(level, each[1])]
        zeroing = [place for place, _ in _calls(body, {"zero_grad"}) if first <= place.line <= last]
        return clipped_early(level, limited, every, zeroing)
    if after is None or _measures(level, after[1]):
        return None
    place = after[0]
    others = [*backwards, *(each.position for each in optimizer_steps(level) if first <= each.line <= last)]
    if any(here < each < place.position for each in others) or any(each > place.position for each in others):
        return None
    return warning(
        "BS124",
        "The gradients are clipped after the step, so clipping has no effect.",
        (shown(level.place, "uses the unclipped gradients."), shown(place, "clips them after they were used.")),
        f"Move {_with_condition(place, level.place)[0]} above line {level.line}, `{level.place.text}`"
        f"{_moved(place, 'above', level.place)}.",
        place,
    )


def _with_condition(place: Place, beside: Place) -> tuple[str, Place]:
    """Say what is to be moved beside another statement, and its place: with the condition that it is all of."""
    body, statement = read_at(place)
    head = place
    while body is not None and statement is not None and not are_beside(head, beside):
        outer = next((e for e in statements(body.node) if isinstance(e, ast.If) and e.body == [statement]), None)
        if outer is None or outer.orelse:
            return f"line {place.line}, `{place.text}`,", place
        head, statement = body.place(outer), outer
    if head == place:
        return f"line {place.line}, `{place.text}`,", place
    return f"line {place.line}, `{place.text}`, with the condition on line {head.line},", head


def _moved(place: Place, where: Literal["above", "below"], beside: Place) -> Edit | str:
    """The edit by which a statement, with its condition, goes beside another of its block."""
    _, head = _with_condition(place, beside)
    body, condition = read_at(head)
    first, last = sorted((head.line, beside.line))
    between = (each for each in statements(body.node) if first <= each.lineno < last) if body is not None else ()
    changed = set[str]().union(*map(bound, between))
    needed = names_read(condition.test) if isinstance(condition, ast.If) else ()
    return move(head, where, beside) if are_beside(head, beside) and not changed & {*needed} else ""


_OVER_OTHERS = (filter, map, zip, enumerate, itertools.islice)
"""Iterators over one other, or a tuple of them."""

_OVER_A_CONTAINER: tuple[type, ...] = (type(iter([])), type(iter(())), type(iter({}.values())), type(iter(set())))


def _is_used_up(held: object) -> bool:
    """Whether an iterator has come to its end, as far as that shows without asking it for an element."""
    kind = type(held)
    if type(held) is GeneratorType:  # isinstance would ask an object of the program for its __class__
        return held.gi_frame is None
    if kind is itertools.chain:  # it lets go of what it has gone through
        return all(each is kind for each in gc.get_referents(held))
    if kind in _OVER_OTHERS:
        inner = gc.get_referents(held)
        return any(map(_is_used_up, [*inner, *itertools.chain(*(each for each in inner if type(each) is tuple))]))
    return kind in _OVER_A_CONTAINER and operator.length_hint(held) == 0


def _clipped_by(level: Level, call: ast.Call) -> object:
    return value_of(level, call.args[0] if call.args else keyword(call, "parameters"))


def _nothing_clipped(body: Body, place: Place, call: ast.Call) -> Finding:
    """Return that a clipping gets no parameters: something before has gone through them all."""
    given = call.args[0] if call.args else keyword(call, "parameters")
    name = dotted(given) or "the iterator"
    last = ending(name)
    every = [
        each.place(s)
        for each in (functions(body.file) if "." in name else [body])
        for s in statements(each.node)
        if any(ending(n) == last and ("." in n) is ("." in name) for n in bound(s))
    ]
    made = only(every)
    value = made.text.partition(" = ")[2] if made is not None else ""
    fix = ""
    if made is not None and value:
        listing = f"{made.text.partition(' = ')[0]} = list({value})"
        fix = f"Store a list: {listing}{written(made, listing)}."
    return warning(
        "BS124",
        f"The gradients are not clipped: {name} is an iterator that is already exhausted.",
        (
            if_known(made, "creates it: it can be iterated only once."),
            shown(place, "finds nothing left in it to clip."),
        ),
        fix or f"Pass a list of parameters, or call model.parameters() again on line {place.line}.",
        place,
        since=1,
    )


def _thrown_away(level: Level, body: Body) -> Finding | None:
    """Return that each batch zeroes the gradients, where a step is taken every K batches, `if (i + 1) % K == 0:`."""
    first, last = _bounds(body, level.line)
    conditions = [e for e in statements(body.node) if isinstance(e, ast.If) and first < e.lineno <= last]
    guards = [each for each in conditions if each.lineno < level.line <= (each.end_lineno or 0)]
    guard = min(guards, key=lambda each: each.lineno, default=None)
    every = modulus(body, guard) if guard is not None else None
    if guard is None or every is None or value_of(level, every) == 1:
        return None
    conditional = [(each.lineno, each.end_lineno or 0) for each in conditions]
    within = [each for each in _calls(body, {"step"}) if first < each[0].line <= last]
    zeroing: list[tuple[Place, Place]] = []  # each with the step below which it belongs
    for place, call in _calls(body, {"zero_grad"}):
        name = dotted(callee(call)[0])
        own = [at for at, each in within if name in (dotted(callee(each)[0]), *map(dotted, each.args))]
        inside = [at for at in own if guard.lineno < at.line <= (guard.end_lineno or 0)]
        conditions_of = (a < place.line <= b for a, b in conditional)
        if first < place.line <= last and inside == own and not any(conditions_of):
            zeroing.append((place, (inside or [level.place])[-1]))
    runs = [each for each in backward_calls(body) if first < each.line < guard.lineno]
    if not zeroing or not runs or any(a < runs[0].line <= b for a, b in conditional):
        return None
    text = body.text(every)
    where = itertools.chain([" into that condition,"], itertools.repeat(""))
    moves = [
        f"line {place.line}, `{place.text}`,{into} below line {at.line}, `{at.text}`{move(place, 'below', at)}"
        for into, (place, at) in zip(where, zeroing, strict=False)
    ]
    return warning(
        "BS127",
        f"Of {text} accumulated batches, only the last counts: the gradients are zeroed for each batch.",
        (
            *(shown(place, "throws away the gradients of the previous batch.") for place, _ in zeroing),
            shown(body.place(guard), "steps only once every few batches."),
        ),
        f"Move {', and '.join(moves)}.",
        zeroing[0][0],
    )


def modulus(body: Body, guard: ast.If) -> ast.expr | None:
    """Return the K of a condition with `% K`, also where a variable of the same loop has the condition."""
    test, name = guard.test, dotted(guard.test)
    made = only(each for each in statements(body.node) if name in bound(each))
    if made is not None and loops_around(body, made.lineno)[-1:] == loops_around(body, guard.lineno)[-1:]:
        test = next((value for goal, value in assigned(made) if dotted(goal) == name), test)
    return next((n.right for n in ast.walk(test) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mod)), None)


def _scaled(level: Level, clipping: Place, began: tuple[int, int]) -> Finding | None:
    """Return that a scaler's gradients are clipped before they are unscaled; None if there is none, or they are not."""
    body, here = level.body, level.place.position
    step = next((call for place, call in _calls(body, {"step"}) if place.position == here), None) if body else None
    receiver = callee(step)[0] if step is not None else None
    scaler = value_of(level, receiver)
    if body is None or not isinstance(scaler, torch.amp.GradScaler) or not (namespace(scaler) or {}).get("_enabled"):
        return None
    if any(began < place.position < clipping.position for place, _ in _calls(body, {"unscale_"})):
        return None
    name, scale = dotted(receiver) or "scaler", torch.amp.GradScaler.get_scale(scaler)
    optimizer = body.text(step.args[0]) if step is not None and step.args else "optimizer"
    return warning(
        "BS124",
        "The gradients are clipped while they are still multiplied by the loss scale.",
        (
            shown(clipping, f"clips gradients that are {scale:,.0f} times too large."),
            shown(level.place, "divides them by the scale only later."),
        ),
        f"Call {name}.unscale_({optimizer}) before line {clipping.line}"
        f"{added(f'{name}.unscale_({optimizer})', 'above', clipping)}.",
        clipping,
    )


def _calls(body: Body, names: set[str] | frozenset[str]) -> Iterator[tuple[Place, ast.Call]]:
    every = ((statement, call) for statement in statements(body.node) for call in calls_in(statement))
    return ((body.place(statement), call) for statement, call in every if callee(call)[1] in names)


def _bounds(body: Body, line: int) -> tuple[int, int]:
    """Return the first and the last line of the innermost loop around a line, else of the function."""
    inner = loops_around(body, line)[-1:]
    return (inner[0].lineno, inner[0].end_lineno or 0) if inner else (0, 2**31)


def _measures(level: Level, call: ast.Call) -> bool:
    """Whether a clipping has no limit: it is called for the norm that it returns."""
    limit = call.args[1] if len(call.args) > 1 else keyword(call, "max_norm", "clip_value")
    if isinstance(limit, ast.Call) and callee(limit)[1] == "float":
        limit = limit.args[0] if limit.args else None
    value = value_of(level, limit)
    infinite = isinstance(value, str) and value.strip().lower() in ("inf", "infinity")
    return (
        infinite
        or (isinstance(value, float) and math.isinf(value))
        or meaning(limit) in ("math.inf", "torch.inf", "numpy.inf")
    )


def clipped_early(
    level: Level, clippings: Sequence[tuple[Place, ast.Call]], backwards: Sequence[Place], zeroing: Sequence[Place]
) -> Finding | None:
    """Return that an iteration clips the gradients of the one before, where a watch saw no other backward since."""
    steps = [each for each in steps_in(level) if each.place == level.place]
    if not (clippings and backwards and zeroing and steps):
        return None
    (place, call), began = clippings[-1], backwards[0]
    in_order = place.position < began.position and backwards[-1].position < level.place.position
    ids = _ids(level, call.args[0] if call.args else None)
    if not in_order or not ids or not steps[0].trained or not ids & steps[0].trained:
        return None
    if not _is_one_block(level.body, place, began, level.place) or not _ran_alone(
        {(each.file, each.line) for each in backwards}
    ):
        return None
    return _early(level, place, began, backwards[-1])


def _early(level: Level, place: Place, began: Place, ended: Place) -> Finding:
    between = f" between line {ended.line}, `{ended.text}`, and line {level.line}, `{level.place.text}`"
    if read_at(ended)[0] != level.body:
        between = f" below line {ended.line}, `{ended.text}`"
    return warning(
        "BS124",
        "The gradients are clipped before backward() computes them, so clipping has no effect.",
        (
            shown(place, "finds no gradients of this step."),
            shown(began, "computes them later."),
            shown(level.place, "uses them unclipped."),
        ),
        f"Move {_with_condition(place, ended)[0]}{between}{_moved(place, 'below', ended)}.",
        place,
        since=1,
    )


def _clipped_by_helper(level: Level, body: Body, first: int) -> Finding | None:
    """Return that a function which the iteration calls, once its gradients are zeroed, clips and then runs backward."""
    steps = [each for each in steps_in(level) if each.place == level.place]
    zeroing = [place.position for place, _ in _calls(body, {"zero_grad"}) if first <= place.line < level.line]
    for statement in statements(body.node):
        for call in calls_in(statement) if first <= statement.lineno < level.line and steps and zeroing else ():
            helper = only(each for each in functions(body.file) if each.name and each.name == callee(call)[1])
            clipping, backward = only(_calls(helper, _CLIPPING)) if helper else None, only(backward_calls(helper))
            if helper is None or clipping is None or backward is None or not clipping[0].position < backward.position:
                continue
            given = next(iter(clipping[1].args), None)
            ids = _ids(level, handed(helper, call).get(dotted(given) or ""))
            here, place = body.place(statement), clipping[0]
            if (
                max(zeroing) < here.position
                and ids & steps[0].trained
                and not _measures(level, clipping[1])
                and not any(_calls(helper, {"zero_grad", "step"}))
                and _is_one_block(body, here, here, level.place)
                and _is_one_block(helper, place, backward, backward)
                and not loops_around(helper, backward.line)
                and _ran_alone({(backward.file, backward.line)})
            ):
                return _early(level, place, backward, backward)
    return None


def _ids(level: Level, given: ast.expr | None) -> set[int]:
    """Return the ids of the parameters of `model.parameters()`, or in a list."""
    if isinstance(given, ast.Call) and callee(given)[1] == "parameters":
        model = value_of(level, callee(given)[0])
        return {id(p) for p in parameters_in(model)} if isinstance(model, torch.nn.Module) else set()
    held = value_of(level, given)
    return {id(each) for each in held} if type(held) in (list, tuple) else {id(held)}  # type: ignore[attr-defined]


def _is_one_block(body: Body | None, clipping: Place, began: Place, last: Place) -> bool:
    """Whether a backward and the last of these run as often as one another, and a clipping no more often."""
    branches = {each.node.lineno: each.branches for each in spots(body)}
    backward = branches.get(began.line, ())
    return backward == branches.get(last.line) and branches.get(clipping.line, ())[: len(backward)] == backward


def _ran_alone(lines: set[tuple[str, int]]) -> bool:
    """Whether all backwards of this thread since its last step but one ran on these lines."""
    watch, thread = current(), threading.get_ident()
    past = list(watch.steps.past.get(thread, ())) if watch is not None else []
    if watch is None or len(past) < 2:
        return False
    since = [each for each in watch.backwards if each.marks.get(thread, 0) > past[-2]]
    return bool(since) and all(each.line is not None and (each.line.file, each.line.line) in lines for each in since)
