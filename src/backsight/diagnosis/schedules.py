"""BS118, BS128: what schedules make of a learning rate, and whose it is."""

from __future__ import annotations

import ast
import gc
from collections.abc import Sequence
from types import FrameType, FunctionType
from typing import Any, NamedTuple

import torch

from backsight.diagnosis.amending import added, block_of, call_at, instead, with_keyword
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.program import calls_around, constructions, method_of, named, program_frames
from backsight.diagnosis.wording import numbered, shown, warning
from backsight.findings.evidence import Fact
from backsight.naming import search
from backsight.naming.plain import namespace
from backsight.snapshot import groups
from backsight.source import Body, Place, function_at, only, read_at
from backsight.source.body import LOOPS, callee, calls_in, dotted, keyword, statements
from backsight.source.edits import OR, move
from backsight.source.rewriting import simple
from backsight.story.evaluated import value_of
from backsight.story.failure import Level

CODES = ("BS118", "BS128")


def faded(
    optimizer: torch.optim.Optimizer, steps_made: int, peak: float, rate: float, since: int, frame: FrameType
) -> Finding:
    """Return the finding that the learning rate has decayed to 0; `steps_made` by the optimizer so far."""
    name = named(optimizer, "the optimizer")
    of = schedules_of(optimizer)
    kind = type(of[0]).__name__ if of else "the schedule"
    if kind == "ReduceLROnPlateau":
        return _plateaued(of[0], name, peak, rate, since, frame)
    steps, negative = steps_of(of[0], frame) if of else [], lowest_rate(optimizer) < 0
    evidence: list[Fact] = [
        f"It fell from {peak:.3g} and is negative since step {numbered(since)}: each step moves up the gradient."
        if negative
        else _fell(peak, rate, since)
    ]
    if len(steps) == 1:
        evidence.append(shown(steps[0], f"steps the {kind}."))
    counts = (namespace(each) or {} for each in of)
    counted = max((n for each in counts if type(n := each.get("last_epoch")) is int), default=0)
    often = round(counted / max(steps_made, 1))
    if often > 1:
        evidence.append(
            f"It was stepped {counted:,} times, and {name} {steps_made:,} times: {often} times for each step."
        )
    return warning(
        "BS118",
        f"The learning rate of {name} is negative." if negative else f"The learning rate of {name} has decayed to 0.",
        evidence,
        f"Step {kind} where {name}.step() is called, once for each. Or make it {often} times as long."
        if often > 1
        else f"Make {kind} last as long as the training. It counts its own steps: if you mean epochs, call its step() "
        "after each epoch, not after each batch.",
        steps[0] if len(steps) == 1 else None,
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
    """Return the finding that the function of a LambdaLR returns a rate, by which it multiplies the rate.

    Its largest factor is the rate itself, or both are small. Who begins with a rate of 1 may return a rate.
    """
    of = [each for each in schedules_of(optimizer) if type(each).__name__ == "LambdaLR"]
    known: list[Any] = [(namespace(each) or {}).get("base_lrs") for each in of]
    firsts = [n for each in known if type(each) is list for n in each if type(n) is float]
    first = max(firsts, default=0.0)
    is_rate = abs(factor - first) <= 1e-3 * first or max(factor, first) <= _SMALL
    if not of or _counted(of[0]) < _STEPPED or not 0 < first <= 0.1 or not is_rate:
        return None
    name, made = named(optimizer, "the optimizer"), constructions(frame, of[0], named(of[0], ""))
    lambdas: Any = (namespace(of[0]) or {}).get("lr_lambdas")
    function = lambdas[0] if type(lambdas) is list and lambdas else None
    body = function_at(function.__code__) if type(function) is FunctionType else None
    returns = [s for s in statements(body.node) if isinstance(s, ast.Return)] if body is not None else []
    evidence: list[Fact] = [
        f"It began with a rate of {first:.3g}, which LambdaLR multiplies by at most {factor:.3g}: {first * factor:.3g}."
    ]
    if len(made) == 1:
        evidence.append(shown(made[0], "creates the LambdaLR."))
    if body is not None and len(returns) == 1:
        evidence.append(shown(body.place(returns[0]), "returns a rate; it must return a factor."))
    return warning(
        "BS118",
        f"The learning rate of {name} is multiplied by a rate: LambdaLR expects a factor.",
        evidence,
        f"Return a factor: divide what the function returns by {first:.3g}, the rate of {name}"
        f"{_divided(body, returns, first)}. {OR}Or create {name} with lr=1.0"
        f"{_at_one(constructions(frame, optimizer, name))}.",
        made[0] if len(made) == 1 else None,
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
    steps, made = steps_of(schedule, frame), constructions(frame, schedule, named(schedule, ""))
    metric = _given_to_step(frame, steps[0]) if len(steps) == 1 else ""
    evidence: list[Fact] = [_fell(peak, rate, since)]
    if len(steps) == 1:
        evidence.append(shown(steps[0], f"gives it {metric or 'the metric'}."))
    if len(made) == 1:
        evidence.append(shown(made[0], f'creates it with mode="{held.get("mode")}": {better} is better.'))
    if type(best) in (float, int):
        evidence.append(f"The {'lowest' if falls else 'highest'} value was {best:.4g}; it waits for a {better} one.")
    return Finding(
        "BS118",
        "warning",
        f"The learning rate of {name} has decayed to 0: ReduceLROnPlateau waits for {metric or 'its metric'} to "
        f"{'fall' if falls else 'rise'}.",
        tuple(evidence),
        f'If {opposite}, pass mode="{other}"{_in_mode(only(made), other)}. {OR}Otherwise, pass more patience, or '
        "min_lr.",
        source=next((str(found[0]) for found in (made, steps) if len(found) == 1), None),
        since=since,
    )


def _in_mode(made: Place | None, mode: str) -> str:
    body, statement, call = call_at(made, "ReduceLROnPlateau")
    if body is None or call is None:
        return ""
    changes: dict[ast.expr, str] = dict.fromkeys(call.args[1:2], f'"{mode}"')
    return instead(body, statement, changes or with_keyword(body, call, "mode", f'"{mode}"'))


def _given_to_step(frame: FrameType, place: Place) -> str:
    """Return what is passed to step() by the statement at a place, as the source writes it."""
    calls = (c for b, s, c in calls_around(frame) if b.place(s) == place and callee(c)[1] == "step")
    return next((f"`{ast.unparse(each)}`" for c in calls for each in [*c.args, *(k.value for k in c.keywords)]), "")


def counts_batches(
    optimizer: torch.optim.Optimizer, steps_made: int, peak: float, rate: float, since: int, frame: FrameType
) -> Finding | None:
    """Return the finding that a schedule has made the learning rate low early, as it is stepped once for each step of
    the optimizer, which stands in a loop over batches inside of one over epochs.
    """
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
    """Return the finding that a cosine, which rises again at its end, counts batches, and is as long as the turns of a
    loop around that over batches: its T_max is the number of epochs.
    """
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
    steps = steps_of(schedule, frame)
    called = dotted(_receiver(frame, steps[0])) if len(steps) == 1 else None
    evidence: list[Fact] = [seen]
    if len(steps) == 1:
        evidence.append(shown(steps[0], f"steps the {type(schedule).__name__} after each batch."))
    return warning(
        "BS118",
        title,
        evidence,
        f"Call {called or 'its'}{'.' if called else ' '}step() once after each epoch: at the end of the loop at line "
        f"{outer.line}, outside of the loop at line {inner.line}{_after_epoch(steps, outer)}. {OR}If you mean batches, "
        f"{meant}.",
        steps[0] if len(steps) == 1 else None,
        since=since,
    )


def _after_epoch(steps: Sequence[Place], outer: Place) -> str:
    """Step a schedule at the end of the loop over epochs."""
    at = only(steps)
    (body, statement), (around, _) = read_at(at), read_at(outer)
    if at is None or body is None or around is None or statement is None or body.node is not around.node:
        return ""
    return str(move(at, "end", outer)) if len(block_of(body, statement)) > 1 else ""


def drives_another(schedule: Any, optimizer: torch.optim.Optimizer, since: int, frame: FrameType) -> Finding:
    """Return the finding that a schedule goes on for an optimizer which `optimizer` has replaced."""
    kind, name, called = type(schedule).__name__, named(optimizer, "the optimizer"), named(schedule, "")
    steps = steps_of(schedule, frame)
    made = constructions(frame, optimizer, name)
    evidence: list[Fact] = [f"It has not stepped since step {numbered(since)}, but {kind} still schedules it."]
    if len(steps) == 1:
        evidence.append(shown(steps[0], "steps the scheduler of the old one."))
    if made:
        evidence.append(shown(made[-1], f"creates the new {name.split('.')[-1]}."))
    again = constructions(frame, schedule, called) if called else []
    edit = added(again[0].text, "below", made[-1]) if made and len(again) == 1 else ""
    return warning(
        "BS128",
        f"{called or kind} drives an optimizer that {name} replaced: {name} has no scheduler.",
        evidence,
        f"Create a new {kind} where {name} is created{edit}. {OR}Or add the parameters to the old optimizer with "
        "add_param_group.",
        made[-1] if made else None,
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


def _receiver(frame: FrameType, place: Place) -> ast.expr | None:
    """Return what the statement at a place calls step() of."""
    return next(
        (callee(c)[0] for b, s, c in calls_around(frame) if b.place(s) == place and callee(c)[1] == "step"),
        None,
    )


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
        inside = [s for s in statements(body.node) if isinstance(s, LOOPS)]
        around = [s for s in inside if s.lineno < each.f_lineno <= (s.end_lineno or 0)]
        level = Level(each, each.f_lineno)
        found += [_Loop(body.place(s), _turns(level, s)) for s in sorted(around, key=lambda s: -s.lineno)]
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
    """Return the statements of the program's files that may step a schedule, by any name that it has.

    A search for names ends at the first ones, and a callback may have another.
    """
    called = {name.path.split(".")[-1] for name in search([schedule]).names[0]}
    holding = ((each if type(each) is dict else namespace(each) or {}) for each in gc.get_referrers(schedule))
    called |= {key for each in holding for key, value in list(each.items()) if value is schedule and type(key) is str}
    return [
        body.place(s) for body, s, call in calls_around(frame) if method_of(call) in {(name, "step") for name in called}
    ]
