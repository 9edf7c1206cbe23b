"""The same computation as a change of the tensor it starts from, as text."""

from __future__ import annotations

import ast

from backsight.source.bindings import Use, uses
from backsight.source.body import Body, callee, dotted, statement_at
from backsight.source.imports import library
from backsight.source.out_of_place import OPERATORS, arguments


def in_place(body: Body, name: str, line: int) -> str | None:
    """Return the assignment at `line`, which computes `name` from `name`, so that `name` stays the tensor it was.

    What makes a new leaf of it, `.detach()`, `.data`, `.clone()` and `.requires_grad_()`, is left out. None where the
    statement is of another form, or does nothing else.

    >>> in_place(body, "w", 12), in_place(body, "w", 13)      # w = w.clamp(min=0.1); w = F.normalize(w)
    ('w.clamp_(min=0.1)', 'w.copy_(F.normalize(w))')
    """
    match statement_at(body, line):
        case ast.Assign(targets=[target], value=value) if dotted(target) == name:
            value = _attached(value)
        case _:
            return None
    if Use(name, False) not in uses(value) or dotted(value) == name:
        return None
    match value:
        case ast.BinOp(left=left, op=op, right=right) if dotted(_attached(left)) == name and type(op) in OPERATORS:
            return f"{name} {OPERATORS[type(op)]}= {body.text(right)}"
        case ast.Call() if written := _call(body, name, value):
            return written
    return f"{name}.copy_({body.text(value)})"


def _attached(value: ast.expr) -> ast.expr:
    while True:
        match value:
            case ast.Attribute(value=inner, attr="data"):
                value = inner
            case ast.Call(func=ast.Attribute(value=inner, attr="detach" | "clone" | "requires_grad_")):
                value = inner
            case _:
                return value


def _call(body: Body, name: str, call: ast.Call) -> str | None:
    receiver, function = callee(call)
    if receiver is None or function not in _WITH_NAMESAKE:
        return None
    given = arguments(body, call)
    if dotted(_attached(receiver)) == name:
        return f"{name}.{function}_({', '.join(given)})"
    if library(receiver) == "torch" and given and given[0] == name:
        return f"{name}.{function}_({', '.join(given[1:])})"
    return None


# Methods and functions of torch of which there is one with an underscore at the end.
_WITH_NAMESAKE = frozenset(
    {"abs", "add", "addcdiv", "addcmul", "ceil", "clamp", "clamp_max", "clamp_min", "clip", "div", "exp", "floor"}
    | {"lerp", "log", "masked_fill", "mul", "nan_to_num", "neg", "pow", "relu", "renorm", "round", "sigmoid", "sqrt"}
    | {"sub", "tanh", "tril", "triu"}
)
