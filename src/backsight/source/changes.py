"""Statements that change a tensor in place, or what a data set stores."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TypeGuard

from backsight.source.body import (
    Body,
    Place,
    callee,
    calls_in,
    dotted,
    expressions,
    functions,
    is_constant,
    keyword,
    statements,
)
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


_CHANGES = (ast.Add, ast.Sub, ast.Mult, ast.Div)
_WRAPS = frozenset({"from_numpy", "as_tensor", "asarray"})
"""Functions whose result has the memory of what they are given, where its type allows that."""

_VIEWS = frozenset({"view", "reshape", "unsqueeze", "squeeze", "numpy", "detach", "ravel", "t"})


def changed_where_read(file: str) -> list[Place]:
    """Return the statements of a file that change an item of a container, or what such an item is called, in place.

    >>> changed_where_read("train.py")      # x = self.images[i]; x -= self.mean
    [Place('train.py', 31, 'x -= self.mean')]

    An item is what a subscript gives, such as `self.images[i]`, what a loop goes through, or a parameter that a call
    hands one in for. Of a function that has several, the first.
    """
    bodies = list(functions(file))
    handed = {name for body in bodies for name in _handed(body)}
    found = []
    for body in bodies:
        items = _items(body) | {arg for function, arg in _parameters(body, handed) if function}
        first = next((s for s in statements(body.node) if _changes(s, items)), None)
        if first is not None:
            found.append(body.place(first))
    return found


def _items(body: Body) -> set[str]:
    """Return the names that a subscript of an attribute, or a loop, has given their values."""
    names = set()
    for statement in statements(body.node):
        value = _shared(statement.value) if isinstance(statement, ast.Assign) else None
        if isinstance(value, ast.Subscript) and dotted(value.value) is not None:
            names |= {each.id for each in getattr(statement, "targets", []) if isinstance(each, ast.Name)}
        if isinstance(statement, ast.For):
            names |= {each.id for each in ast.walk(statement.target) if isinstance(each, ast.Name)}
    return names


def _shared(value: ast.expr) -> ast.expr:
    """Return what an expression has the memory of: `self.x[i]` of `torch.from_numpy(self.x[i]).view(-1)`."""
    while isinstance(value, ast.Call):
        receiver, name = callee(value)
        if name in _WRAPS and value.args:
            value = value.args[0]
        elif name in _VIEWS and receiver is not None:
            value = receiver
        else:
            break
    return value


def _handed(body: Body) -> Iterator[tuple[str, int | str]]:
    """Yield the functions that a function hands an item to, each with the position or the keyword."""
    items = _items(body)
    for call in (call for statement in statements(body.node) for call in calls_in(statement)):
        named = ((each.arg or "", each.value) for each in call.keywords)
        given: list[tuple[int | str, ast.expr]] = [*enumerate(call.args), *named]
        for at, value in given:
            plain = isinstance(value, ast.Subscript) and dotted(value.value) is not None
            if plain or (isinstance(value, ast.Name) and value.id in items):
                yield callee(call)[1], at


def _parameters(body: Body, handed: set[tuple[str, int | str]]) -> Iterator[tuple[str, str]]:
    function, given = body.name, getattr(body.node, "args", None)
    if not isinstance(given, ast.arguments):
        return
    names = [each.arg for each in (*given.posonlyargs, *given.args)]
    names = names[1:] if names[:1] == ["self"] else names
    for at, name in enumerate(names):
        if (function, at) in handed or (function, name) in handed:
            yield function, name


def _changes(statement: ast.stmt, items: set[str]) -> bool:
    """Whether a statement changes an item in place: `x -= mean`, `self.x[i] /= std`, `x[:] = ...`, `x.div_(std)`."""
    if isinstance(statement, ast.AugAssign) and isinstance(statement.op, _CHANGES):
        target = statement.target
        stored = isinstance(target, ast.Subscript) and "." in (dotted(target.value) or "")
        return stored or _root(target) in items
    if isinstance(statement, ast.Assign):
        return any(isinstance(t, ast.Subscript) and _root(t) in items for t in statement.targets)
    if not isinstance(statement, ast.Expr):
        return False
    for call in calls_in(statement):
        receiver, method = callee(call)
        if method.endswith("_") and not method.endswith("__") and receiver is not None and _root(receiver) in items:
            return method not in ("requires_grad_", "zero_", "detach_")
    return False


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
