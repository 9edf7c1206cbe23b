"""Statements that change in place what a data set stores, while they read it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from backsight.source.body import Body, Place, callee, calls_in, dotted, functions, statements

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
