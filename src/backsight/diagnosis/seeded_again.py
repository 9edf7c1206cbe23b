"""BS168: each step draws the same random numbers, because each seeds the generator."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from types import FrameType

from backsight.diagnosis.finding import Finding
from backsight.diagnosis.program import bodies, program_frames
from backsight.diagnosis.wording import shown, warning
from backsight.source import Body, Place, function_at
from backsight.source.bindings import bound, parameters_of, uses
from backsight.source.body import LOOPS, body_around, callee, calls_in, dotted, statements
from backsight.story.fixes import removed
from backsight.tracing import Watch, drawn_again

CODES = ("BS168",)

_SEEDS = frozenset({"manual_seed", "manual_seed_all", "seed_everything", "set_seed"})
_MODULES = frozenset({"torch", "cuda", "random"})


def seeded_again(watch: Watch, frame: FrameType) -> Finding | None:
    """Return the finding that the watch saw the same numbers in each step, if a statement that each runs seeds with one
    number: of a state that was put back, or a seed for each sample, nothing is said."""
    drawn = drawn_again(watch)
    around = [body for line in drawn for body in [body_around(line.file, line.line)] if body is not None]
    seeds = list(dict.fromkeys(_seeds(frame, around)))
    if not drawn or not seeds:
        return None
    place = seeds[0]
    draws = shown(drawn[0], "draws the same numbers in each step.") if drawn[0].place != place else None
    return warning(
        "BS168",
        "Each step draws the same random numbers: it seeds the generator again.",
        (shown(place, "runs in each step.", "read"), draws),
        f"Seed once, before the training: {removed(place)}. For numbers that an evaluation repeats, seed "
        "inside `with torch.random.fork_rng():`, which puts the state back.",
        place,
        since=1,
    )


def _seeds(frame: FrameType, around: list[Body]) -> Iterator[Place]:
    """Yield the statements that seed with one number and run in each step: in the function of a draw or one that it
    calls, and in the loops that lead to the step."""
    every = list(bodies(frame))
    inside = [body for body in around if isinstance(body.node, ast.FunctionDef)]
    for body in inside:
        yield from _seeding(body, every, list(statements(body.node)))
    for each in program_frames(frame):
        running = function_at(each.f_code)
        loops = [s for s in statements(running.node) if isinstance(s, LOOPS)] if running is not None else []
        turning = [s for s in loops if s.lineno <= each.f_lineno <= (s.end_lineno or 0)]
        if running is None:
            continue
        if turning:
            innermost = max(turning, key=lambda s: s.lineno)
            yield from _seeding(running, every, list(statements(ast.Module(innermost.body, []))))
            return
        yield from _seeding(running, every, list(statements(running.node)))


def _seeding(body: Body, every: list[Body], run: list[ast.stmt]) -> Iterator[Place]:
    forked = [each for each in statements(body.node) if isinstance(each, ast.With) and "fork_rng" in body.text(each)]
    for statement in run:
        if any(each.lineno <= statement.lineno <= (each.end_lineno or 0) for each in forked):
            continue
        for call in calls_in(statement):
            if (_is_seed(call) or _calls_seeder(call, every)) and _are_fixed(body, call):
                yield body.place(statement)


def _is_seed(call: ast.Call) -> bool:
    """Whether a call seeds a generator of PyTorch's own, and not one of the program's."""
    receiver, method = callee(call)
    last = (dotted(receiver) or "").split(".")[-1] if receiver is not None else "torch"
    return method in _SEEDS and (last in _MODULES or method not in ("manual_seed", "manual_seed_all"))


def _calls_seeder(call: ast.Call, every: list[Body]) -> bool:
    """Whether a call runs a function of the program that seeds and does nothing but that kind of thing."""
    name = callee(call)[1]
    named = (body for body in every if isinstance(body.node, ast.FunctionDef) and body.node.name == name)
    return any(
        all(isinstance(each, ast.Expr | ast.Assign | ast.If) for each in body.node.body)
        and any(_is_seed(inner) for each in statements(body.node) for inner in calls_in(each))
        and not any(isinstance(each, ast.Return) for each in statements(body.node))
        for body in named
    )


def _are_fixed(body: Body, call: ast.Call) -> bool:
    """Whether a call is given no index: nothing itself that the function is given, nor what one of its loops counts."""
    loops = [each for each in statements(body.node) if isinstance(each, LOOPS)]
    varying = parameters_of(body.node) | {name for each in loops for name in bound(each)}
    for value in (*call.args, *(each.value for each in call.keywords)):
        held = {use.name.split(".")[0] for use in uses(value) if "." in use.name}
        if any(use.name in varying and use.name not in held for use in uses(value)):
            return False
    return True
