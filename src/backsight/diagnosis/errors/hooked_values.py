"""How an expression that a hook returns is made from the gradient that it was given, as the text shows."""

from __future__ import annotations

import ast
from collections.abc import Sequence

import torch

from backsight.source import Body
from backsight.source.body import callee, statements
from backsight.source.callables import callables
from backsight.source.definitions import values_of
from backsight.source.imports import library

_DEEPEST = 5
REDUCING = frozenset({"sum", "mean", "norm", "max", "min", "topk", "item", "median", "std", "var", "cat", "stack"})


def keeps(value: ast.expr, gradient: str) -> bool:
    """Whether an expression surely has the shape and the dtype of the gradient: `grad`, `-grad`, `2 * grad`."""
    match value:
        case ast.Name(id=name):
            return name == gradient
        case ast.UnaryOp(operand=operand):
            return keeps(operand, gradient)
        case ast.BinOp(left=left, right=right):
            plain = [isinstance(getattr(each, "operand", each), ast.Constant) for each in (left, right)]
            return (keeps(left, gradient) and plain[1]) or (keeps(right, gradient) and plain[0])
        case ast.Call(func=ast.Attribute(value=receiver, attr=attr)):
            return attr in ("clamp", "clone", "contiguous", "detach") and keeps(receiver, gradient)
    return False


def is_an_operation(value: ast.expr) -> bool:
    """Whether PyTorch computes the value of an expression last, and no function of the program's."""
    if not isinstance(value, ast.Call):
        return isinstance(value, ast.BinOp | ast.UnaryOp | ast.Subscript)
    receiver, name = callee(value)
    return library(value.func) == "torch" or (receiver is not None and hasattr(torch.Tensor, name))


def is_reduced(value: ast.expr, gradient: str) -> bool:
    """Whether an expression is not computed from a gradient entry by entry: `grad.norm()` is not, `grad / norm` is."""
    match value:
        case ast.Name(id=name):
            return name != gradient
        case ast.Call(args=args) if callee(value)[1] not in REDUCING:
            return all(is_reduced(each, gradient) for each in (callee(value)[0], *args) if each is not None)
        case ast.BinOp(left=left, right=right):
            return is_reduced(left, gradient) and is_reduced(right, gradient)
        case ast.UnaryOp(operand=operand) | ast.Subscript(value=operand):
            return is_reduced(operand, gradient)
    return True


def reduces(value: ast.expr) -> bool:
    """Whether an expression has fewer entries than what it is computed from."""
    calls = [node for node in ast.walk(value) if isinstance(node, ast.Call)]
    return any(callee(call)[1] in REDUCING for call in calls)


def is_computed(value: ast.expr, body: Body, bodies: Sequence[Body], depth: int = _DEEPEST) -> bool:
    """Whether an expression is a new gradient, `0.5 * grad`, or calls only functions that return such a one."""
    match value:
        case ast.Name(id=name):
            given = [*values_of(body, name, value.lineno)] if depth else []
            return bool(given) and all(is_computed(each, body, bodies, depth - 1) for each in given)
        case ast.Call() if not is_an_operation(value):
            called = [*callables(value.func, body, bodies)] if depth else []
            ends = all(isinstance(each.body.node.body[-1], ast.Return) for each in called)
            results = [(each, one.body) for one in called for each in statements(one.body.node)]
            returned = [(each.value, its) for each, its in results if isinstance(each, ast.Return)]
            return (
                bool(called)
                and ends
                and all(each is not None and is_computed(each, its, bodies, depth - 1) for each, its in returned)
            )
        case ast.BinOp() | ast.UnaryOp() | ast.Call():
            names = {node.id for node in ast.walk(value) if isinstance(node, ast.Name)}
            return any(not is_reduced(value, name) for name in names)
    return False
