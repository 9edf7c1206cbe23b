"""Which functions an expression stands for that is handed over to be called: a hook, as the text shows."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from backsight.source.bindings import assigned, parameters_of, unpacked
from backsight.source.body import Body, Scope, as_function, callee, calls_in, dotted, statements

_DEEPEST = 5


@dataclass(frozen=True, eq=False)
class Callable:
    """A function of the program, by the expression that was handed over.

    node: its `def`, or the lambda.
    has_name: whether the object that was handed over bears its name, as no `partial` and no object does.
    names, count: what a `partial` gives it by name, and how many by position.
    """

    body: Body
    node: Scope | ast.Lambda
    has_name: bool = True
    names: frozenset[str] = frozenset()
    count: int = 0

    @property
    def position(self) -> tuple[int, int]:
        return getattr(self.node, "lineno", 0), getattr(self.node, "col_offset", 0)


def callables(value: ast.expr, body: Body, bodies: Sequence[Body], depth: int = _DEEPEST) -> Iterator[Callable]:
    """Yield the functions of `bodies` that an expression in one of them may stand for.

    >>> [each.body.node.name for each in callables(call.args[0], body, bodies)]     # h.register_hook(partial(scale, 2))
    ['scale']
    """
    if depth == 0:
        return
    match value:
        case ast.Lambda():
            yield Callable(replace(body, node=as_function(value)), value)
        case ast.Call(args=[function, *given], keywords=named) if callee(value)[1] in ("partial", "partialmethod"):
            names = frozenset(each.arg for each in named if each.arg)
            for each in callables(function, body, bodies, depth - 1):
                yield replace(each, has_name=False, names=each.names | names, count=each.count + len(given))
        case ast.Call(func=function):
            yield from _made_by(function, body, bodies, depth)
        case ast.IfExp(body=one, orelse=other):
            yield from (each for part in (one, other) for each in callables(part, body, bodies, depth - 1))
        case ast.Subscript(value=container):
            yield from (each for part in _entries(container, body) for each in callables(part, body, bodies, depth - 1))
        case ast.Name() | ast.Attribute():
            yield from _named(value, body, bodies, depth)


def _named(value: ast.expr, body: Body, bodies: Sequence[Body], depth: int) -> Iterator[Callable]:
    """The functions that a name or an attribute stands for: what is defined so, else what it is given."""
    name = dotted(value) or ""
    last = name.rpartition(".")[2]
    own = [each for each in bodies if getattr(each.node, "name", "") == last]
    inside = [each for each in own if _is_within(each, body)] if last == name else []
    if own:
        yield from (Callable(each, each.node) for each in inside or own)
        return
    given = [*_given(name, body, bodies), *(_arguments(name, body, bodies) if last == name else ())]
    for part, its_body in given:
        yield from callables(part, its_body, bodies, depth - 1)


def _made_by(function: ast.expr, body: Body, bodies: Sequence[Body], depth: int) -> Iterator[Callable]:
    """What a call makes that can be called itself: an object with `__call__`, or what a function returns."""
    name = (dotted(function) or "").rpartition(".")[2]
    classes = (each for one in bodies for each in statements(one.node) if isinstance(each, ast.ClassDef))
    if (cls := next((each for each in classes if each.name == name), None)) is not None:
        calls = (each for each in cls.body if isinstance(each, ast.FunctionDef) and each.name == "__call__")
        found = next(calls, None)
        own = next((each for each in bodies if each.node is found), None)
        if own is not None:
            yield Callable(own, own.node, has_name=False)
        for base in cls.bases if own is None else ():
            yield from _made_by(base, body, bodies, depth - 1) if depth > 1 else ()
        return
    for maker in (each for each in bodies if isinstance(each.node, ast.FunctionDef) and each.node.name == name):
        for each in statements(maker.node):
            if isinstance(each, ast.Return) and each.value is not None:
                yield from callables(each.value, maker, bodies, depth - 1)


def _is_within(inner: Body, outer: Body) -> bool:
    if inner.file != outer.file or isinstance(inner.node, ast.Module):
        return inner.node is outer.node
    return isinstance(outer.node, ast.Module) or outer.node.lineno <= inner.node.lineno <= (outer.node.end_lineno or 0)


def _given(name: str, body: Body, bodies: Sequence[Body]) -> Iterator[tuple[ast.expr, Body]]:
    """What a variable is given in its function or around it, or an attribute anywhere."""
    last = name.rpartition(".")[2]
    for each in bodies:
        if each.file != body.file or not ("." in name or each is body or _is_within(body, each)):
            continue
        for statement in statements(each.node):
            for target, value in assigned(statement):
                written = dotted(target) or ""
                if written == name or ("." in name and "." in written and written.rpartition(".")[2] == last):
                    yield value, each
            if isinstance(statement, ast.ClassDef) and "." in name:
                pairs = (pair for inner in statement.body for pair in assigned(inner))
                yield from ((value, each) for target, value in pairs if dotted(target) == last)
            if isinstance(statement, ast.For):
                yield from ((one, each) for one in _of_loop(statement, name, each))


def _of_loop(loop: ast.For, name: str, body: Body) -> Iterator[ast.expr]:
    """What a loop gives to a variable: the entries of the list or the dict that it goes through."""
    receiver, method = callee(loop.iter) if isinstance(loop.iter, ast.Call) else (loop.iter, "")
    for entry in _entries(receiver, body) if receiver is not None else ():
        pair = ast.Tuple([ast.Constant(None), entry]) if method == "items" else entry
        yield from (
            value for target, value, part in unpacked(loop.target, pair) if part is None and dotted(target) == name
        )


def _entries(container: ast.expr, body: Body) -> list[ast.expr]:
    """The entries of a list, tuple or dict that is written there, or where its variable is assigned."""
    if (name := dotted(container)) is not None:
        pairs = (pair for each in statements(body.node) for pair in assigned(each))
        container = next((value for target, value in pairs if dotted(target) == name), container)
    match container:
        case ast.Dict(values=values):
            return values
        case ast.List(elts=elts) | ast.Tuple(elts=elts):
            return elts
        case ast.Call(func=ast.Name(id="dict"), keywords=keywords):
            return [each.value for each in keywords]
    return []


def _arguments(name: str, body: Body, bodies: Sequence[Body]) -> Iterator[tuple[ast.expr, Body]]:
    """What the calls of a function give for its parameter, or for one of a function around it."""
    around = [each for each in bodies if _is_within(body, each) and name in parameters_of(each.node)]
    node = max(around, key=lambda each: each.node.lineno).node if around else None  # type: ignore[union-attr]
    if not isinstance(node, ast.FunctionDef):
        return
    order = [each.arg for each in (*node.args.posonlyargs, *node.args.args) if each.arg not in ("self", "cls")]
    for each in bodies:
        for call in (call for statement in statements(each.node) for call in calls_in(statement)):
            if callee(call)[1] == node.name:
                by_name = {one.arg: one.value for one in call.keywords if one.arg}
                by_position = dict(zip(order, call.args, strict=False))
                given = by_position | by_name
                if name in given and len(call.args) <= len(order) and not by_name.keys() & by_position.keys():
                    yield given[name], each
