"""BS156: weights that were pruned come back with the next step."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from types import FrameType

import torch

from backsight.diagnosis.amending import added
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.program import bodies, calls_around, names_of, program_frames
from backsight.diagnosis.wording import shown, warning
from backsight.source import Body, function_at, statement_at
from backsight.source.body import LOOPS, callee, expressions, statements

CODES = ("BS156",)

_PRUNES = re.compile(r"mask|prun|spars|keep", re.IGNORECASE)
_WRITES = frozenset({"mul_", "masked_fill_", "copy_"})


def regrown(weights: Sequence[tuple[torch.Tensor, float]], since: int, frame: FrameType) -> Finding | None:
    """Return the finding that weights of which a share was set to zero are not zero after the next step.

    None where no statement of the program writes by a mask: what else makes zeros may not mean to keep them.
    """
    found = [(body, each) for body in bodies(frame) for each in _masks(body)]
    if not found:
        return None
    names, share = names_of([each for each, _ in weights]), max(share for _, share in weights)
    body, statement = found[0]
    place = body.place(statement) if len(found) == 1 else None
    step = next(program_frames(frame), None)
    line = f"line {step.f_lineno}, the optimizer step" if step is not None else "the optimizer step"
    again = _again(frame, body, statement) if place is not None else None
    function = function_at(step.f_code) if step is not None else None
    stepping = statement_at(function, step.f_lineno) if function is not None and step is not None else None
    edit = added(again or "", "beside", function.place(stepping)) if again and function and stepping else ""
    return warning(
        "BS156",
        f"The pruned entries of {names} do not stay zero.",
        (
            f"{share:.0%} of the values were zero before this step, and most of these are nonzero after it: their "
            "gradients, momentum or weight decay move them.",
            shown(place, "sets them to zero once, not after each step.", "read") if place is not None else None,
        ),
        f"Once pruned, apply the mask after each step: call {again} below {line}{edit}."
        if again is not None
        else f"Keep the mask, and multiply the weights by it after {line}, or prune with torch.nn.utils.prune, which "
        "applies it in each forward pass.",
        place,
        since=since,
    )


def is_single(frame: FrameType) -> bool:
    """Whether the text masks weights at one place that runs once: in no loop, or there under an equality."""
    found = [(body, each) for body in bodies(frame) for each in _masks(body)]
    if len(found) != 1:
        return False
    name = getattr(found[0][0].node, "name", "")
    calls = [(body, each) for body, each, call in calls_around(frame) if name and callee(call)[1] == name]
    return (len(calls) == 1 and _runs_once(*calls[0])) if name else _runs_once(*found[0])


def _runs_once(body: Body, statement: ast.stmt) -> bool:
    around = [each for each in statements(body.node) if each.lineno < statement.lineno <= (each.end_lineno or 0)]
    tests = [each.test for each in around if isinstance(each, ast.If)]
    at_once = any(isinstance(op, ast.Eq) for test in tests for op in getattr(test, "ops", ()))
    return at_once or not any(isinstance(each, LOOPS) for each in around)


def _masks(body: Body) -> Iterator[ast.stmt]:
    """Yield the statements that write into a tensor by a mask: `w.mul_(mask)`, `w.data *= mask`, `w[drop] = 0`."""
    inside = _PRUNES.search(body.name)
    for each in statements(body.node):
        if _writes(each) and (inside or _PRUNES.search(ast.unparse(each)) or _zeroes_weights(each)):
            yield each


def _zeroes_weights(statement: ast.stmt) -> bool:
    """Whether a statement sets some entries of a weight to zero: `layer.weight[small] = 0`."""
    goal = statement.targets[0] if isinstance(statement, ast.Assign) else None
    return isinstance(goal, ast.Subscript) and any(
        isinstance(node, ast.Attribute) and node.attr == "weight" for node in ast.walk(goal.value)
    )


def _writes(statement: ast.stmt) -> bool:
    match statement:
        case ast.AugAssign(target=ast.Attribute(attr="data" | "weight"), op=ast.Mult()):
            return True
        case ast.Assign(targets=[ast.Subscript()], value=ast.Constant(value=0 | 0.0)):
            return True
        case ast.Assign(targets=[ast.Attribute(attr="data")], value=ast.BinOp(op=ast.Mult())):
            return True
        case ast.Expr(value=ast.Call() as call):
            receiver, method = callee(call)
            return method in _WRITES and not any(
                isinstance(node, ast.Attribute) and node.attr == "grad" for node in ast.walk(receiver or call)
            )
    return False


def _again(frame: FrameType, body: Body, statement: ast.stmt) -> str | None:
    """Return the call that applies a mask which is kept elsewhere, as the program writes it."""
    name = body.name
    own = {
        node.id
        for each in statements(body.node)
        if isinstance(each, ast.Assign)
        for node in expressions(each)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    used = {node.id for node in expressions(statement) if isinstance(node, ast.Name)}
    if not name or own & used:
        return None
    calls = {ast.unparse(call) for _, _, call in calls_around(frame) if callee(call)[1] == name}
    return calls.pop() if len(calls) == 1 else None
