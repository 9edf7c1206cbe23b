"""A statement that only clears a gradient, `p.grad.zero_()`: where there is none, nothing is to be done."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from backsight.diagnosis.evidence.gradients import Read
from backsight.source import Body
from backsight.source.body import callee, calls_in, dotted, statements
from backsight.story.memory import gradient_of, is_tensor

_VERBS = {"zero_": "zero", "fill_": "zero", "mul_": "zero", "detach_": "detach"}


class Clearing(NamedTuple):
    """What the failing statement clears: what it says for it, `to zero`, and the statement with a condition.

    also: the lines of the function that do the same with a gradient, and the next of which fails as this one did; each
    with its statement and a condition, likewise.
    """

    gradient: str
    verb: str
    guarded: str
    also: dict[int, str]


def clearing(read: Read) -> Clearing | None:
    """Return what the failing statement clears; None where it needs the gradient for something else."""
    body, statement = read.level.body, read.level.statement
    if body is None or statement is None:
        return None
    found = next((each for call in calls_in(statement) if (each := _cleared(body, call, read))), None)
    if found is None:
        return None
    gradient, verb = found
    return Clearing(gradient, verb, _guarded(body, statement, gradient), dict(_alike(read, body, statement)))


def _guarded(body: Body, statement: ast.stmt, gradient: str) -> str:
    stands_alone = body.lines[statement.lineno - 1].strip() == body.text(statement)
    simple = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call) and stands_alone
    return f"if {gradient} is not None: {body.text(statement)}" if simple else ""


def _alike(read: Read, body: Body, statement: ast.stmt) -> Iterator[tuple[int, str]]:
    for each in statements(body.node):
        if each is not statement and isinstance(each, ast.Expr):
            none = next((text for call in calls_in(each) if (text := _none(body, call, read))), "")
            if none:
                yield each.lineno, _guarded(body, each, none)


def _none(body: Body, call: ast.Call, read: Read) -> str:
    """The gradient that a call clears, if that is None, too."""
    found = _kind(call)
    name = dotted(found[0].value) if found and isinstance(found[0], ast.Attribute) else None
    tensor = read.level.value(name) if name else None
    alike = name == read.text or (is_tensor(tensor) and gradient_of(tensor) is None)
    return body.text(found[0]) if found and alike else ""


def _cleared(body: Body, call: ast.Call, read: Read) -> tuple[str, str] | None:
    """The gradient that a call clears, as it is written, if it is the one that was read."""
    found = _kind(call)
    if found is None:
        return None
    gradient, verb = found
    text = body.text(gradient)
    taken = isinstance(gradient, ast.Name) and read.place.position < read.level.place.position  # g = p.grad
    if text != f"{read.text}.grad" and not (taken and read.level.value(text) is None):
        return None
    return text, verb


def _kind(call: ast.Call) -> tuple[ast.expr, str] | None:
    """What a call clears, and how: `p.grad` of `p.grad.data.zero_()`."""
    receiver, method = callee(call)
    if method in ("fill_", "mul_") and [getattr(each, "value", None) for each in call.args] != [0]:
        return None
    if isinstance(receiver, ast.Attribute) and receiver.attr == "data":
        receiver = receiver.value
    known = isinstance(receiver, ast.Name) or (isinstance(receiver, ast.Attribute) and receiver.attr == "grad")
    return (receiver, _VERBS[method]) if receiver is not None and known and method in _VERBS else None
