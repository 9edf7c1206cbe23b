"""BS127: the gradients of a backward are zeroed before any step has used them, as by all but the last before a step."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterator, Sequence
from types import FrameType

import torch

from backsight.diagnosis.amending import are_beside, gone
from backsight.diagnosis.evidence.turns import Turns, is_bound, zeroed_in_turns
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.rules.registry import rule
from backsight.diagnosis.rules.undivided import batches
from backsight.diagnosis.scene import Scene, Site
from backsight.diagnosis.wording import counted, if_known, listed, shown, warning
from backsight.naming import search
from backsight.source import Body, Place, read_at, statement_at
from backsight.source.body import LOOPS, SCOPES, body_around, callee, calls_in, dotted, functions, keyword, statements
from backsight.source.edits import move

_OPTIMIZERS = os.path.dirname(torch.optim.__file__) + os.sep


@rule("BS127")
def thrown_away(scene: Scene) -> Iterator[Finding]:
    """A line has run backward several times since the step before, and zeroes the gradients before each of them.

    Who has several optimizers may zero those of one for another: then the text has to name the same one twice. And who
    reads gradients has used them.
    """
    several = len({id(each) for each in scene.optimizers.values()}) != 1
    runs = batches(scene, several=several)
    if runs < 2 or _in_a_step():
        return
    body = body_around(*scene.site)
    if several:
        turns = zeroed_in_turns(body, scene.site[1], scene.involved()) if body is not None else None
        if turns is not None:
            yield in_turns(turns)
        return
    zeroing = _zeroing(body, scene.site[1]) if body is not None else None
    if body is None or zeroing is None or are_read(body):
        return
    here = scene.running
    yield warning(
        "BS127",
        f"Of {counted(runs, 'backward')} before each step, only the last counts: the gradients are zeroed in between.",
        (
            shown(zeroing, f"throws away the gradients of the previous backward, {counted(runs - 1, 'time')} a step."),
            if_known(here, f"runs {runs} times for each step."),
        ),
        f"Move `{zeroing.text}` to where the step is: call it once for each step, before the first backward.",
        zeroing,
    )


def in_turns(turns: Turns, since: int | None = None) -> Finding:
    """Return the finding of an optimizer whose gradients each turn of a loop zeroes, though it steps after the loop."""
    return warning(
        "BS127",
        f"{turns.optimizer} steps after a loop whose every turn zeroes its gradients: only the last turn counts.",
        (
            shown(turns.zeroing, "throws away the gradients of the turn before."),
            shown(turns.step, "makes one step, after the loop."),
        ),
        f"Move line {turns.zeroing.line}, `{turns.zeroing.text}`, above line {turns.loop.line}, `{turns.loop.text}`"
        f"{move(turns.zeroing, 'above', turns.loop)}: then the gradients of all turns add up for that step.",
        turns.zeroing,
        since=since,
    )


def _in_a_step() -> bool:
    """Whether an optimizer has called for this backward: LBFGS calls its closure several times in a step."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename.startswith(_OPTIMIZERS):
            return True
        frame = frame.f_back
    return False


def _zeroing(body: Body, line: int) -> Place | None:
    """Return the zero_grad() that runs before each backward of a line: in the loop around it, or in the function."""
    loops = [s for s in statements(body.node) if isinstance(s, LOOPS) and s.lineno < line <= (s.end_lineno or 0)]
    unit: ast.AST = max(loops, key=lambda each: each.lineno, default=body.node)
    if isinstance(unit, ast.Module):
        return None
    inside = [each for each in statements(body.node) if unit is body.node or _within(each, unit)]
    calls = [(each, *callee(call)) for each in inside for call in calls_in(each)]
    if any(name == "step" for *_, name in calls):
        return None
    turns = (unit.lineno, unit.end_lineno or 0) if isinstance(unit, LOOPS) else (0, 0)
    conditions = [each for each in inside if isinstance(each, ast.If | ast.Try)]
    found = [
        each
        for each, receiver, name in calls
        if name == "zero_grad"
        and each.lineno < line
        and not is_bound(body, dotted(receiver) or "", *turns)  # another one in each turn
        and not any(_within(each, other) and other.lineno < each.lineno for other in conditions)
    ]
    return body.place(found[0]) if found else None


def _within(statement: ast.stmt, other: ast.AST) -> bool:
    return getattr(other, "lineno", 0) < statement.lineno <= (getattr(other, "end_lineno", 0) or 0)


def are_read(body: Body) -> bool:
    """Whether gradients are read in a function, or in one that calls it."""
    name = body.name
    around = [body.node, *(each.node for each in functions(body.file) if _calls(list(statements(each.node)), name))]
    return any(isinstance(n, ast.Attribute) and n.attr == "grad" for each in around for n in _own(each))


def _own(scope: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a scope without those of the functions that it defines."""
    for node in ast.iter_child_nodes(scope):
        if not isinstance(node, SCOPES):
            yield node
            yield from _own(node)


def _calls(inside: Sequence[ast.stmt], name: str) -> bool:
    return any(callee(call)[1] == name for each in inside for call in calls_in(each))


def wiped(first: Site, second: Site, lost: Sequence[torch.Tensor], since: int) -> Finding | None:
    """Return the finding that what the first of two backwards gave to `lost` was gone before the second began.

    Gradients may be wanted for something else than a step: nothing is said where the program reads them.
    """
    body, other = body_around(*first), body_around(*second)
    if body is None or other is None or body.node is not other.node or are_read(body):
        return None
    statement = statement_at(body, first[1])
    zeroing = _zeroing_between(body, first[1], second[1])
    if statement is None or zeroing is None or not _is_backward(statement):
        return None
    names = [found[0].path if found else "a parameter" for found in search(lost[:2], limit=1).names]
    few = listed([*names, *[""] * len(lost[2:])], 2)
    here = body.place(statement)
    return warning(
        "BS127",
        f"The gradients of `{here.text}` are zeroed before any step uses them.",
        (
            shown(here, f"computes the gradients of {few}."),
            shown(zeroing, "throws them away, before the next backward."),
        ),
        f"Remove `{zeroing.text}` there: zero the gradients once for each step, before the first backward"
        f"{_once(body, zeroing, here)}.",
        zeroing,
        since=since,
    )


def _once(body: Body, zeroing: Place, first: Place) -> str:
    """Take a zero_grad() away where another one stands before the first backward; else move it there."""
    called = callee(next(calls_in(read_at(zeroing)[1])))
    every = ((each, callee(call)) for each in statements(body.node) for call in calls_in(each))
    same = [s for s, (on, name) in every if name == called[1] and dotted(on) == dotted(called[0])]
    if any(each.lineno < first.line for each in same):
        return gone(zeroing)
    return str(move(zeroing, "above", first)) if are_beside(zeroing, first) else ""


def _is_backward(statement: ast.stmt) -> bool:
    """Whether a statement calls backward for all leaves."""
    return any(callee(c)[1] == "backward" and keyword(c, "inputs") is None for c in calls_in(statement))


def _zeroing_between(body: Body, after: int, before: int) -> Place | None:
    """Return the one zero_grad() between two lines that have no step between them."""
    calls = [
        (each, callee(call)[1])
        for each in statements(body.node)
        if after < each.lineno < before
        for call in calls_in(each)
    ]
    if any(name == "step" for _, name in calls):
        return None
    return next((body.place(each) for each, name in calls if name == "zero_grad"), None)
