"""BS125, BS127: of several batches for one step, the gradients are added up undivided, or zeroed before any step."""

from __future__ import annotations

import ast
import os
import re
import sys
import threading
from collections.abc import Iterator, Sequence
from itertools import pairwise
from types import FrameType

import torch

from backsight.diagnosis.amending import are_beside, gone, instead, is_known
from backsight.diagnosis.evidence.turns import Turns, is_bound, zeroed_in_turns
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.misplaced import modulus
from backsight.diagnosis.program import few_of, loops_around
from backsight.diagnosis.scene import Scene, Site, operation_of, rule
from backsight.diagnosis.wording import counted, if_known, listed, shown, warning
from backsight.source import Body, Place, read_at, statement_at
from backsight.source.body import LOOPS, SCOPES, body_around, callee, calls_in, dotted, functions, keyword, statements
from backsight.source.edits import move
from backsight.source.rewriting import simple
from backsight.story.holders import given
from backsight.tape import Node
from backsight.tracing import current

_MEANS = frozenset({"Mean", "MseLoss", "NllLoss", "NllLoss2D", "SmoothL1Loss", "HuberLoss", "SoftMarginLoss"}) | {
    "BinaryCrossEntropy",
    "BinaryCrossEntropyWithLogits",
}
"""Operations that end a loss and, unless the program says otherwise, take the mean over the batch."""


@rule("BS125")
def undivided(scene: Scene) -> Iterator[Finding]:
    """A step that is taken every K batches, after K backwards of one line.

    It matters to an optimizer whose step grows with the gradient; one that normalizes it, such as Adam, does not care.
    """
    roots = scene.graph.roots
    many = batches(scene)
    if many < 2 or len(roots) != 1 or not _is_mean(roots[0]):
        return
    body = body_around(*scene.site)
    guard = _between_steps(body, scene.site[1]) if body is not None else None
    if body is None or guard is None:
        return
    grows = [name for name, each in scene.involved().items() if isinstance(each, torch.optim.SGD)]
    here = next((body.place(each) for each in statements(body.node) if each.lineno == scene.site[1]), None)
    yield Finding(
        "BS125",
        "warning" if grows else "note",
        f"Each step uses the sum of the gradients of {many} batches, not their mean.",
        (
            *((shown(here, "adds the gradient of a batch; its loss is a mean and is not divided."),) if here else ()),
            shown(guard[0], "accumulates several batches before each step."),
            f"{listed(grows)}: the step is {many} times as large as with one batch."
            if grows
            else (
                "This optimizer normalizes the gradient, so its step stays the same size; clipping and weight decay "
                "are still affected."
            ),
        ),
        f"Divide each loss by {guard[1]} before backward(){_divided(here, guard[1])}.",
        source=str(here) if here else None,
    )


def _is_mean(loss: Node) -> bool:
    """Whether a loss is a mean over the batch, also times the square of a temperature, as in a distillation."""
    operation = operation_of(loss)
    if loss.op == "Mul" and operation is not None and len(given(loss)) == 1:
        factors = [each.text for each in operation.operands if re.fullmatch(r"[\w.]+ ?\*\* ?2", each.text)]
        return len(factors) == 1 and _is_mean(given(loss)[0])
    takes_mean = operation is not None and any(
        each.position == "reduction" and each.text.strip("\"'") == "batchmean" for each in operation.operands
    )
    return loss.op in _MEANS or (loss.op == "Div" and takes_mean)


def _divided(here: Place | None, by: str) -> str:
    """Divide what a backward is called on."""
    body, statement = read_at(here)
    roots = [callee(call)[0] for call in calls_in(statement) if callee(call)[1] == "backward"]
    if body is None or here is None or len(roots) != 1 or roots[0] is None or not is_known(by, here):
        return ""
    number = by if by.isidentifier() or by.isdigit() or "." in by else f"({by})"
    return instead(body, statement, {roots[0]: f"{simple(body.text(roots[0]))} / {number}"})


def batches(scene: Scene, *, several: bool = False) -> int:
    """Return how many backwards, all of this line, were between the last two steps; of several, with any between."""
    watch, thread = current(), threading.get_ident()
    if watch is None or scene.steps is None or scene.moment != "during backward":
        return 0
    past = [0, *scene.steps.past.get(thread, ())]
    every = [each for each in watch.backwards if each.thread == thread and each.call == "backward"]
    pairs = list(pairwise(past))[-8 if several else -1 :]
    found = ([each for each in every if each.done and a < each.mark <= b] for a, b in reversed(pairs))
    between = next(filter(None, found), [])
    alike = all(each.line is not None and (each.line.file, each.line.line) == scene.site for each in between)
    return len(between) if alike else 0


def _between_steps(body: Body, line: int) -> tuple[Place, str] | None:
    """Return what lets a step be taken after K batches, and K: `if (i + 1) % K == 0:`, `for _ in range(K):`, or
    `for part in batch.chunk(K):`.

    None where the gradients are divided, or a loss is said to be a sum; nor where the passes of such a loop differ, as
    those over the tasks of a step do.
    """
    loops = loops_around(body, line)[::-1]
    module = body_around(body.file, 0)
    if not loops or module is None or any(map(_divides, ast.walk(loops[-1]))) or any(map(_sums, ast.walk(module.node))):
        return None
    for each in ast.walk(loops[0]):
        if isinstance(each, ast.If) and (by := modulus(body, each)) is not None and _steps(each.body):
            return body.place(each), body.text(by)
    inner = loops[0]
    times = inner.iter if isinstance(inner, ast.For) else None
    if len(loops) < 2 or _steps(inner.body) or not isinstance(times, ast.Call):
        return None
    parts = [each for each in ast.walk(times) if isinstance(each, ast.Call) and callee(each)[1] in ("chunk", "split")]
    if parts:
        chunked = callee(parts[0])[1] == "chunk" and len(parts[0].args) == 1
        return body.place(inner), body.text(parts[0].args[0]) if chunked else "the number of parts"
    if callee(times)[1] != "range":
        return None
    target = inner.target.id if isinstance(inner, ast.For) and isinstance(inner.target, ast.Name) else ""
    reads = (node for each in inner.body for node in ast.walk(each) if isinstance(node, ast.Name))
    if len(times.args) != 1 or any(node.id == target for node in reads):
        return None
    return body.place(inner), body.text(times.args[0])


def _steps(block: list[ast.stmt]) -> bool:
    calls = (n for each in block for n in ast.walk(each) if isinstance(n, ast.Call))
    return any(callee(call)[1] == "step" for call in calls)


def _divides(node: ast.AST) -> bool:
    """Whether a statement computes with gradients, and may divide them."""
    if not isinstance(node, ast.Assign | ast.AugAssign | ast.Expr):
        return False
    inside = list(ast.walk(node))
    reads = any(isinstance(each, ast.Attribute) and each.attr == "grad" for each in inside)
    return reads and (
        any(isinstance(each, ast.Div | ast.Mult) for each in inside)
        or any(isinstance(each, ast.Call) and callee(each)[1] in ("div_", "mul_") for each in inside)
    )


def _sums(node: ast.AST) -> bool:
    return isinstance(node, ast.keyword) and node.arg == "reduction" and getattr(node.value, "value", "") == "sum"


# BS127: the gradients of a backward are zeroed before any step has used them, as by all but the last before a step.


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
    unit: ast.AST = next(reversed(loops_around(body, line)), body.node)
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
    """Return the finding that what a backward gave to `lost` was gone before the next, and unread."""
    body, other = body_around(*first), body_around(*second)
    if body is None or other is None or body.node is not other.node or are_read(body):
        return None
    statement = statement_at(body, first[1])
    zeroing = _zeroing_between(body, first[1], second[1])
    if statement is None or zeroing is None or not _is_backward(statement):
        return None
    here = body.place(statement)
    return warning(
        "BS127",
        f"The gradients of `{here.text}` are zeroed before any step uses them.",
        (
            shown(here, f"computes the gradients of {few_of(lost)}."),
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
