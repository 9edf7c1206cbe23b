"""Statements that change a tensor in place."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TypeGuard

from backsight.source.body import Body, Place, callee, dotted, expressions, is_constant, keyword, statements
from backsight.source.imports import library

# Attributes and methods whose result shares memory with the tensor: to change the one is to change the other.
_VIEW_ATTRIBUTES = frozenset({"T", "H", "mT", "mH", "real", "imag"})
_VIEW_METHODS = frozenset(
    {"view", "view_as", "reshape", "flatten", "unflatten", "squeeze", "unsqueeze", "expand", "expand_as"}
    | {"t", "transpose", "swapaxes", "permute", "movedim", "narrow", "select", "diagonal", "unfold", "detach", "numpy"}
)
# Methods and functions that always return a new tensor.
_NEW = frozenset(
    {"clone", "relu", "gelu", "silu", "tanh", "sigmoid", "exp", "log", "sqrt", "softmax", "log_softmax", "softplus"}
    | {"matmul", "mm", "bmm", "einsum", "cat", "stack", "where", "layer_norm", "linear", "clamp", "masked_fill"}
)
HARMLESS = frozenset(
    {"requires_grad_", "share_memory_", "rename_", "detach_"}
    | {"clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_"}
)
"""What ends in an underscore and leaves the values as they are."""

# What has a `data` attribute and is no tensor.
_NOT_TENSORS = frozenset({"self", "cls", "utils"})


def inplace_changes(body: Body | None, name: str) -> tuple[Place, ...]:
    """The statements that change the object bound to `name` in place, as far as the text alone shows, in source order.

    >>> [place.text for place in inplace_changes(body, "h")]
    ['h[:, 0] = 0', 'F.relu(h, inplace=True)']
    """
    if body is None:
        return ()
    return tuple(body.place(each) for each in statements(body.node) if name in changed_names(each))


def makes_new(statement: ast.stmt, name: str) -> bool:
    """Whether the statement gives `name` a tensor with memory of its own, as far as the text alone shows.

    So do arithmetic and the functions that never return a view or their argument; `h = f(h)` may do either.
    """
    match statement:
        case ast.Assign(targets=[target], value=value) if dotted(target) == name:
            pass
        case _:
            return False
    match value:
        case ast.BinOp() | ast.UnaryOp(op=ast.USub()):
            return True
        case ast.Call(keywords=keywords) if not any(each.arg in ("inplace", "out") for each in keywords):
            receiver, function = callee(value)
            owner = dotted(receiver) if receiver is not None else None
            return function in _NEW and (owner == name or library(value.func) == "torch")
    return False


def is_tensor_data(node: ast.expr) -> TypeGuard[ast.Attribute]:
    """Whether `node` is written like the `.data` of a tensor; `self.data` and `torch.utils.data` are not."""
    if not isinstance(node, ast.Attribute) or node.attr != "data":
        return False
    return dotted(node.value) not in _NOT_TENSORS and not library(node)


def changed_names(statement: ast.stmt) -> set[str]:
    """The names whose memory a statement changes in place, as far as the text alone shows."""
    return {name for each in changed_memory(statement) if (name := dotted(each))}


def changed_memory(statement: ast.stmt) -> list[ast.expr]:
    """What a statement changes in place, as far as the text alone shows: `x[0].weight` of `x[0].weight[1] = 2`."""
    changed: list[ast.expr] = [statement.target] if isinstance(statement, ast.AugAssign) else []
    for node in expressions(statement):
        if isinstance(node, ast.Call):
            changed += _changed_by(node)
        elif isinstance(node, ast.Subscript | ast.Attribute) and isinstance(node.ctx, ast.Store):
            changed += [node] * (isinstance(node, ast.Subscript) or is_tensor_data(node))
    return [_memory(each) for each in changed]


def _changed_by(call: ast.Call) -> Iterator[ast.expr]:
    """The expressions whose values the call changes."""
    receiver, name = callee(call)
    first = call.args[0] if call.args else keyword(call, "input", "tensor")
    if name.endswith("_") and not name.endswith("__") and name not in HARMLESS:
        if receiver is not None and not library(receiver):
            yield receiver
        elif first is not None:
            yield first
    # Both F.relu(x, inplace=True) and nn.ReLU(inplace=True)(x).
    maker = call.func if isinstance(call.func, ast.Call) else call
    if first is not None and is_constant(keyword(maker, "inplace"), True):
        yield first
    out = keyword(call, "out")
    if out is not None:
        yield from out.elts if isinstance(out, ast.Tuple | ast.List) else [out]


def read_before_written(statement: ast.stmt | None, name: str) -> ast.expr | None:
    """What a statement computes from a tensor before it writes into it: `a @ x` of `x -= a @ x` and `x.sub_(a @ x)`."""
    read: list[ast.expr] = []
    match statement:
        case ast.AugAssign(target=target, value=value) if memory_of(target) == name:
            read = [value]
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=receiver), args=args)) if memory_of(receiver) == name:
            read = args
    return next((each for each in read if any(dotted(node) == name for node in ast.walk(each))), None)


def memory_of(node: ast.expr) -> str | None:
    """The name whose memory `node` shows: `"x"` for `x.data[0].view(-1)`."""
    return dotted(_memory(node))


def _memory(node: ast.expr) -> ast.expr:
    while True:
        if isinstance(node, ast.Subscript) or is_tensor_data(node) or _is_view_attribute(node):
            node = node.value
        elif isinstance(node, ast.Call) and callee(node)[1] in _VIEW_METHODS and (receiver := callee(node)[0]):
            node = receiver
        else:
            return node


def _is_view_attribute(node: ast.expr) -> TypeGuard[ast.Attribute]:
    return isinstance(node, ast.Attribute) and node.attr in _VIEW_ATTRIBUTES
