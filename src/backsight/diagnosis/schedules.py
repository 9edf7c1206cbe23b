"""BS118, BS119, BS128, BS135: what schedules make of a learning rate; optimizers that lose what they have learned."""

from __future__ import annotations

import ast
import gc
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from types import FrameType, FunctionType
from typing import Any, NamedTuple, TypeGuard

import torch

from backsight.diagnosis.amending import above_loops, added, call_at, given_keyword, instead
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.program import (
    calls_around,
    constructions,
    ending,
    endings_of,
    loops_around,
    method_of,
    named,
    program_frames,
    statements_around,
)
from backsight.diagnosis.wording import counted, if_known, numbered, warning
from backsight.naming import search
from backsight.naming.plain import namespace
from backsight.snapshot import groups
from backsight.source import Body, Place, function_at, only, read_at
from backsight.source.body import block_of, callee, calls_in, dotted, expressions, keyword, statements
from backsight.source.edits import OR, move
from backsight.source.rewriting import simple
from backsight.story.evaluated import value_of
from backsight.story.failure import Level


def faded(
    optimizer: torch.optim.Optimizer, steps_made: int, peak: float, rate: float, since: int, frame: FrameType
) -> Finding:
    """Return the finding that the learning rate has decayed to 0; `steps_made` by the optimizer so far."""
    name = named(optimizer, "the optimizer")
    of = schedules_of(optimizer)
    kind = type(of[0]).__name__ if of else "the schedule"
    if kind == "ReduceLROnPlateau":
        return _plateaued(of[0], name, peak, rate, since, frame)
    place, negative = only(steps_of(of[0], frame)) if of else None, lowest_rate(optimizer) < 0
    counted = max(map(_counted, of), default=0)
    often = round(counted / max(steps_made, 1))
    times = f"It was stepped {counted:,} times, and {name} {steps_made:,} times: {often} times for each step."
    return warning(
        "BS118",
        f"The learning rate of {name} is negative." if negative else f"The learning rate of {name} has decayed to 0.",
        (
            f"It fell from {peak:.3g} and is negative since step {numbered(since)}: each step moves up the gradient."
            if negative
            else _fell(peak, rate, since),
            if_known(place, f"steps the {kind}."),
            times if often > 1 else None,
        ),
        f"Step {kind} where {name}.step() is called, once for each. Or make it {often} times as long."
        if often > 1
        else f"Make {kind} last as long as the training. It counts its own steps: if you mean epochs, call its step() "
        "after each epoch, not after each batch.",
        place,
        since=since,
    )


def lowest_rate(optimizer: torch.optim.Optimizer) -> float:
    """Return the lowest learning rate of an optimizer's groups; 0 if none is a number."""
    rates = (group.get("lr") for group in groups(optimizer))
    return min((float(each) for each in rates if type(each) is float or type(each) is int), default=0.0)


def _fell(peak: float, rate: float, since: int) -> str:
    return f"It fell from {peak:.3g} to {rate:.3g}: since step {numbered(since)}, steps change nothing."


_SMALL = 0.01
"""A factor that is never larger, of a rate that is not, is no factor."""

_STEPPED = 3
"""Steps of a schedule after which its factor has had time to rise."""


def multiplies(optimizer: torch.optim.Optimizer, factor: float, since: int, frame: FrameType) -> Finding | None:
    """Return the finding that the function of a LambdaLR returns a rate: the rate itself, or both are small."""
    of = [each for each in schedules_of(optimizer) if type(each).__name__ == "LambdaLR"]
    known: list[Any] = [(namespace(each) or {}).get("base_lrs") for each in of]
    firsts = [n for each in known if type(each) is list for n in each if type(n) is float]
    first = max(firsts, default=0.0)
    is_rate = abs(factor - first) <= 1e-3 * first or max(factor, first) <= _SMALL
    if not of or _counted(of[0]) < _STEPPED or not 0 < first <= 0.1 or not is_rate:
        return None
    name, made = named(optimizer, "the optimizer"), only(constructions(frame, of[0], named(of[0], "")))
    lambdas: Any = (namespace(of[0]) or {}).get("lr_lambdas")
    function = lambdas[0] if type(lambdas) is list and lambdas else None
    body = function_at(function.__code__) if type(function) is FunctionType else None
    returns = [s for s in statements(body) if isinstance(s, ast.Return)]
    returned = body.place(returns[0]) if body is not None and len(returns) == 1 else None
    return warning(
        "BS118",
        f"The learning rate of {name} is multiplied by a rate: LambdaLR expects a factor.",
        (
            f"It began with a rate of {first:.3g}, which LambdaLR multiplies by at most {factor:.3g}: "
            f"{first * factor:.3g}.",
            if_known(made, "creates the LambdaLR."),
            if_known(returned, "returns a rate; it must return a factor."),
        ),
        f"Return a factor: divide what the function returns by {first:.3g}, the rate of {name}"
        f"{_divided(body, returns, first)}. {OR}Or create {name} with lr=1.0"
        f"{_at_one(constructions(frame, optimizer, name))}.",
        made,
        since=since,
    )


def _divided(body: Body | None, returns: Sequence[ast.Return], rate: float) -> str:
    value = returns[0].value if len(returns) == 1 else None
    if body is None or value is None:
        return ""
    return instead(body, returns[0], {value: f"{simple(body.text(value))} / {rate:g}"})


def _at_one(made: Sequence[Place]) -> str:
    body, statement = read_at(only(made))
    given = [each for call in calls_in(statement) if (each := keyword(call, "lr")) is not None]
    return instead(body, statement, {given[0]: "1.0"}) if len(given) == 1 else ""


def _plateaued(schedule: Any, name: str, peak: float, rate: float, since: int, frame: FrameType) -> Finding:
    """Return the finding that ReduceLROnPlateau, which follows a metric of the program's, has lowered a rate to 0."""
    held = namespace(schedule) or {}
    falls, best = held.get("mode") != "max", held.get("best")
    better, other = ("lower", "max") if falls else ("higher", "min")
    opposite = "a higher value is better, as of an accuracy" if falls else "a lower value is better, as of a loss"
    step, made = only(steps_of(schedule, frame)), only(constructions(frame, schedule, named(schedule, "")))
    metric, waits = _given_to_step(step), type(best) in (float, int)
    return warning(
        "BS118",
        f"The learning rate of {name} has decayed to 0: ReduceLROnPlateau waits for {metric or 'its metric'} to "
        f"{'fall' if falls else 'rise'}.",
        (
            _fell(peak, rate, since),
            if_known(step, f"gives it {metric or 'the metric'}."),
            if_known(made, f'creates it with mode="{held.get("mode")}": {better} is better.'),
            f"The {'lowest' if falls else 'highest'} value was {best:.4g}; it waits for a {better} one."
            if waits
            else None,
        ),
        f'If {opposite}, pass mode="{other}"{_in_mode(made, other)}. {OR}Otherwise, pass more patience, or min_lr.',
        made or step,
        since=since,
    )


def _in_mode(made: Place | None, mode: str) -> str:
    body, statement, call = call_at(made, "ReduceLROnPlateau")
    if call is not None and len(call.args) > 1:
        return instead(body, statement, {call.args[1]: f'"{mode}"'})
    return given_keyword(made, "ReduceLROnPlateau", "mode", f'"{mode}"')


def _given_to_step(place: Place | None) -> str:
    """Return what is passed to step() by the statement at a place, as the source writes it."""
    call = call_at(place, "step")[2]
    given = [*call.args, *(each.value for each in call.keywords)] if call is not None else []
    return f"`{ast.unparse(given[0])}`" if given else ""


def counts_batches(
    optimizer: torch.optim.Optimizer, steps_made: int, peak: float, rate: float, since: int, frame: FrameType
) -> Finding | None:
    """Return the finding that a schedule has made the rate low early, as it is stepped in the loop over batches."""
    of = [each for each in schedules_of(optimizer) if _counted(each) >= 0.9 * steps_made]
    loops = _loops_around(frame)
    if not of or len(loops) < 2:
        return None
    kind, name = type(of[0]).__name__, named(optimizer, "the optimizer")
    title = f"The learning rate of {name} decays too early: {kind} counts batches, not epochs."
    low = (
        f"It was {peak:.3g}, and since step {numbered(since)} it is at most 1% of that; at step {numbered(steps_made)} "
        f"it was {rate:.3g}."
    )
    meant = f"make {kind} decay over all batches of the training"
    return _of_batches(of[0], title, low, loops[0].place, loops[1].place, meant, since, frame)


def swings(optimizer: torch.optim.Optimizer, steps_made: int, since: int, frame: FrameType) -> Finding | None:
    """Return the finding that a cosine counts batches, and its T_max is the number of epochs: it rises again."""
    of = [each for each in schedules_of(optimizer) if type(each).__name__ == "CosineAnnealingLR"]
    if not of or _counted(of[0]) < 0.9 * steps_made:
        return None
    half, loops = (namespace(of[0]) or {}).get("T_max"), _loops_around(frame)
    over = next((each for each in loops[1:] if type(each.turns) is int and each.turns == half), None)
    if over is None:
        return None
    name = named(optimizer, "the optimizer")
    title = f"The learning rate of {name} goes up and down: CosineAnnealingLR counts batches, not epochs."
    again = (
        f"It falls for T_max={half} steps and rises for as many, over and over: at step {numbered(since)} it was back "
        "near its peak."
    )
    meant = "set T_max to the number of all batches of the training"
    return _of_batches(of[0], title, again, loops[0].place, over.place, meant, since, frame)


def _of_batches(
    schedule: Any, title: str, seen: str, inner: Place, outer: Place, meant: str, since: int, frame: FrameType
) -> Finding:
    """Return the finding that a schedule is stepped in the loop over batches, inside of that over epochs."""
    step = only(steps_of(schedule, frame))
    call = call_at(step, "step")[2]
    called = dotted(callee(call)[0]) if call is not None else None
    return warning(
        "BS118",
        title,
        (seen, if_known(step, f"steps the {type(schedule).__name__} after each batch.")),
        f"Call {called or 'its'}{'.' if called else ' '}step() once after each epoch: at the end of the loop at line "
        f"{outer.line}, outside of the loop at line {inner.line}{_after_epoch(step, outer)}. {OR}If you mean batches, "
        f"{meant}.",
        step,
        since=since,
    )


def _after_epoch(at: Place | None, outer: Place) -> str:
    """Step a schedule at the end of the loop over epochs."""
    (body, statement), (around, _) = read_at(at), read_at(outer)
    if at is None or body is None or around is None or statement is None or body.node is not around.node:
        return ""
    return str(move(at, "end", outer)) if len(block_of(body, statement)) > 1 else ""


def drives_another(schedule: Any, optimizer: torch.optim.Optimizer, since: int, frame: FrameType) -> Finding:
    """Return the finding that a schedule goes on for an optimizer which `optimizer` has replaced."""
    kind, name, called = type(schedule).__name__, named(optimizer, "the optimizer"), named(schedule, "")
    made = next(iter(constructions(frame, optimizer, name)[-1:]), None)
    again = only(constructions(frame, schedule, called)) if called else None
    edit = added(again.text, "below", made) if again is not None else ""
    return warning(
        "BS128",
        f"{called or kind} drives an optimizer that {name} replaced: {name} has no scheduler.",
        (
            f"It has not stepped since step {numbered(since)}, but {kind} still schedules it.",
            if_known(only(steps_of(schedule, frame)), "steps the scheduler of the old one."),
            if_known(made, f"creates the new {ending(name)}."),
        ),
        f"Create a new {kind} where {name} is created{edit}. {OR}Or add the parameters to the old optimizer with "
        "add_param_group.",
        made,
        since=since,
    )


def schedules_of(optimizer: torch.optim.Optimizer) -> list[Any]:
    """Return the schedules of PyTorch's that are alive and drive an optimizer."""
    found = search((), collect=(torch.optim.lr_scheduler.LRScheduler,)).found
    return [each for each, _ in found if (namespace(each) or {}).get("optimizer") is optimizer]


def _counted(schedule: Any) -> int:
    """Return how many times a schedule was stepped, as it counts itself."""
    count = (namespace(schedule) or {}).get("last_epoch")
    return count if type(count) is int else 0


class _Loop(NamedTuple):
    place: Place
    turns: object
    """How many `for epoch in range(20)` makes, if that is known."""


def _loops_around(frame: FrameType) -> list[_Loop]:
    """Return the loops in which the step is made, the innermost first, from function to function."""
    found = []
    for each in program_frames(frame):
        body = function_at(each.f_code)
        if body is None:
            break
        level = Level(each, each.f_lineno)
        found += [_Loop(body.place(s), _turns(level, s)) for s in reversed(loops_around(body, each.f_lineno))]
    return found


def _turns(level: Level, loop: ast.stmt) -> object:
    for call in calls_in(loop):  # those of its head: `for epoch in tqdm(range(epochs)):`
        match call:
            case ast.Call(func=ast.Name(id="range"), args=[turns]):
                return value_of(level, turns)
            case ast.Call(
                func=ast.Name(id="range"),
                args=[ast.Constant(value=1), ast.BinOp(left=turns, op=ast.Add(), right=ast.Constant(value=1))],
            ):
                return value_of(level, turns)
    return None


def steps_of(schedule: Any, frame: FrameType) -> list[Place]:
    """Return the statements that may step a schedule, by any name that it has, also in what holds it."""
    called = endings_of(schedule)
    holding = ((each if type(each) is dict else namespace(each) or {}) for each in gc.get_referrers(schedule))
    called |= {key for each in holding for key, value in list(each.items()) if value is schedule and type(key) is str}
    return [
        body.place(s) for body, s, call in calls_around(frame) if method_of(call) in {(name, "step") for name in called}
    ]


# Optimizers that lose what they have learned: by their weight decay, or as they are made anew.


_VANISHING = 0.02
"""The share of a weight that decay may take away in a step: usual are a thousandth and less."""


def shrinking(optimizer: torch.optim.Optimizer, since: int, frame: FrameType) -> Finding | None:
    """Return the finding that weight decay alone makes the weights of an optimizer vanish within some tens of steps."""
    shares = [_decayed(optimizer, group) for group in groups(optimizer)]
    share = max(shares, default=0.0)
    if share < _VANISHING:
        return None
    group = groups(optimizer)[shares.index(share)]
    known = _decay(optimizer, frame)
    name, half = named(optimizer, "the optimizer"), math.ceil(math.log(0.5) / math.log(1 - share)) if share < 1 else 1
    return warning(
        "BS135",
        f"The weight decay of {name} shrinks the weights to 0.",
        (
            if_known(known[0] if known else None, "sets it."),
            f"With weight_decay={group['weight_decay']:g} and lr={group['lr']:g} each step shrinks every weight by "
            f"{share:.1%}: after {counted(half, 'step')} it is half as large, unless the gradient opposes it.",
        ),
        (_undivided(*known) if known else "")
        or "Usual values are 1e-4 to 1e-2 for SGD and up to 0.1 for AdamW. Check whether the value was meant for "
        "something else, such as the decay of the learning rate.",
        known[0] if known else None,
        since=since,
    )


def _decay(optimizer: torch.optim.Optimizer, frame: FrameType) -> tuple[Place, ast.expr] | None:
    """Return what gives an optimizer a decay, and that: in a group, else to its class, else to anything."""
    grouped: list[tuple[Place, ast.expr]] = []
    to_class: list[tuple[Place, ast.expr]] = []
    every: list[tuple[Place, ast.expr]] = []
    for body, statement in statements_around(frame):
        for node in expressions(statement):
            if isinstance(node, ast.Call) and _is_decay(value := keyword(node, "weight_decay")):
                every.append((body.place(statement), value))
                if callee(node)[1] == type(optimizer).__name__:
                    to_class.append(every[-1])
            elif isinstance(node, ast.Dict):
                entries = {k.value: v for k, v in zip(node.keys, node.values, strict=True) if _is_text(k)}
                if "params" in entries and _is_decay(value := entries.get("weight_decay")):
                    grouped.append((body.place(statement), value))
    found = grouped or to_class or every
    return only(found)


def _is_decay(value: ast.expr | None) -> TypeGuard[ast.expr]:
    return value is not None and not (isinstance(value, ast.Constant) and not value.value)


def _is_text(key: ast.expr | None) -> TypeGuard[ast.Constant]:
    return isinstance(key, ast.Constant) and type(key.value) is str


def _undivided(place: Place, value: ast.expr) -> str:
    """Say what to give in place of a decay that is divided by the learning rate; empty for any other."""
    match value:
        case ast.BinOp(left=left, op=ast.Div(), right=right) if re.search(r"lr|rate", ast.unparse(right)):
            body, statement = read_at(place)
            edit = instead(body, statement, {value: ast.unparse(left)})
            return (
                f"Pass weight_decay={ast.unparse(left)}, without the division{edit}: each step multiplies the decay by "
                "the learning rate itself."
            )
    return ""


def _decayed(optimizer: torch.optim.Optimizer, group: dict[str, Any]) -> float:
    """Return the share of a weight that each step takes away, apart from the gradient; 0 where that is not known.

    Source: the algorithms in the documentation of torch.optim.SGD and AdamW.
    """
    rate, decay, momentum = (group.get(key, 0.0) for key in ("lr", "weight_decay", "momentum"))
    if any(type(each) not in (float, int) for each in (rate, decay, momentum)):
        return 0.0
    if isinstance(optimizer, torch.optim.SGD):
        return min(1.0, float(rate * decay / max(1 - momentum, 1e-3)))
    return float(rate * decay) if isinstance(optimizer, torch.optim.AdamW) else 0.0


def made_anew(optimizer: torch.optim.Optimizer, times: int, steps: int, since: int, frame: FrameType) -> Finding | None:
    """Return the finding that an optimizer with a state is made anew again and again."""
    name = named(optimizer, "the optimizer")
    if not _has_state(optimizer):
        return None
    each = steps / max(times, 1)
    made = next(iter(constructions(frame, optimizer, name)), None)
    found = warning(
        "BS119",
        f"{name} is recreated again and again and loses its state.",
        (
            f"{times + 1} of them trained the same parameters one after the other, each for {each:.0f} "
            f"step{'s' * (round(each) != 1)}: momentum and averages start from zero each time.",
            if_known(made, "runs each time."),
        ),
        f"Create {name} once, before the loop{above_loops(made)}.",
        made,
        since=since,
    )
    return found if each < 3 else replace(found, severity="note")


def _has_state(optimizer: torch.optim.Optimizer) -> bool:
    state: Any = object.__getattribute__(optimizer, "__dict__").get("state", {})
    return any(isinstance(v, torch.Tensor) and v.dim() for held in list(state.values())[:1] for v in held.values())
