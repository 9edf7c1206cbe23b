"""Which statements put something into a list, a dict or a running sum: `history.append(loss)`, `total += loss`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace

from backsight.source.bindings import Use, reads, uses
from backsight.source.body import Body, Place, callee, calls_in, dotted, functions, last_name, statements

_ADDING = frozenset({"append", "appendleft", "add", "extend", "extendleft", "insert", "put", "push", "update"})
_BETWEEN = frozenset({"setdefault", "get", "__getitem__"})
"""Methods that lead from a container to what is in it: `log.setdefault('loss', []).append(loss)`."""


@dataclass(frozen=True)
class Keeping:
    """A statement that keeps a value.

    `name` is where it keeps it. `value` is what it keeps, as it is written; empty where that is not one expression.
    `sums` says that it adds to what is already there, as `total += loss` does; `replaces` that it puts the value in the
    place of another, `best[name] = loss`; `cached` that it does so only where there is nothing yet.
    """

    place: Place
    name: str
    value: str = ""
    sums: bool = False
    replaces: bool = False
    cached: bool = False

    def with_value(self, made: str) -> str:
        """Return the statement with `made` in place of its value: `history.append(loss.item())`."""
        at = self.place.text.rfind(self.value) if self.value else -1
        return "" if at < 0 else self.place.text[:at] + made + self.place.text[at + len(self.value) :]


def keepings(body: Body | None, name: str) -> tuple[Keeping, ...]:
    """Return the statements of a function that put something into `name`, or sum it up there, in source order.

    >>> [each.place.text for each in keepings(body, "log.values")]
    ["log.values['loss'].append(loss)"]

    A name that begins with a dot, `.values`, is asked of any object: `self.values.append(loss)` too. A variable that
    stands for an element, `for bucket in self.values:`, leads to it as well.
    """
    if body is None:
        return ()
    names = (name, *_elements(body, name))
    found = ((statement, value) for statement in statements(body.node) for n in names for value in _kept(statement, n))
    return tuple(
        Keeping(
            body.place(statement),
            name,
            "" if value is None else body.text(value),
            _sums(statement, name),
            isinstance(statement, ast.Assign) and any(isinstance(each, ast.Subscript) for each in statement.targets),
            is_cached(body, name, body.place(statement)),
        )
        for statement, value in found
    )


def entry_sums(body: Body | None, name: str) -> tuple[Keeping, ...]:
    """Return the statements of a function that add to an entry of `name`: `log["loss"] += loss`."""
    if body is None:
        return ()
    every = statements(body.node)
    sums = (each for each in every if isinstance(each, ast.AugAssign) and isinstance(each.op, ast.Add))
    return tuple(
        Keeping(body.place(each), name, body.text(each.value), sums=True)
        for each in sums
        if isinstance(each.target, ast.Subscript) and _leads_to(each.target.value, name)
        if not isinstance(each.value, ast.List)
    )


def is_cached(body: Body, name: str, assigned: Place) -> bool:
    """Whether a statement computes what is kept only where there is nothing yet.

    `if self.table is None:`, `if n not in self.tables:`, and `except KeyError:` after `return self.tables[n]`; or below
    `if self.table is not None: return self.table`.
    """
    every = list(statements(body.node))
    read = {each for each in every for use in uses(getattr(each, "value", None)) if use == Use(name, False)}
    known = {name} | {dotted(target) or "" for each in read for target in getattr(each, "targets", ())}
    blocks = [each.body for each in every if isinstance(each, ast.If) and any(_asks_for(each.test, n) for n in known)]
    tries = (each for each in every if isinstance(each, ast.Try) and read & {*each.body})
    blocks += [handler.body for each in tries for handler in each.handlers]
    inside = any(block[0].lineno <= assigned.line <= (block[-1].end_lineno or 0) for block in blocks)
    return inside or early_return(body, name, assigned.line) is not None


def early_return(body: Body, name: str, line: int) -> ast.If | None:
    """The condition above a line that returns what is kept where there is something."""
    for each in getattr(body.node, "body", ()) if not isinstance(body.node, ast.Module | ast.ClassDef) else ():
        if not isinstance(each, ast.If) or each.orelse or (each.end_lineno or 0) >= line:
            continue
        tests = each.test.values if isinstance(each.test, ast.BoolOp) else [each.test]
        last = each.body[-1]
        gives = isinstance(last, ast.Return) and reads(last, name)
        if gives and any(_asks_for(_negated(test), name) for test in tests):
            return each
    return None


def decorator_that_keeps(body: Body) -> tuple[ast.expr, Keeping | None] | None:
    """The decorator that keeps what a function returned for its next call, with the statement that does it, in a
    decorator of the same file: `self.__dict__[name] = method(self)`, where there is nothing yet."""
    every = list(functions(body.file))
    for each in getattr(body.node, "decorator_list", ()):
        name = last_name(each.func if isinstance(each, ast.Call) else each)
        if name in ("cached_property", "cache", "lru_cache"):
            return each, None
        outer = next((one.node for one in every if one.name == name), None)
        inside = {id(node) for node in ast.walk(outer)} if outer is not None else set()
        for inner in (one for one in every if id(one.node) in inside and one.node is not outer):
            for statement in statements(inner.node):
                match statement:
                    case ast.Assign(targets=[ast.Subscript(value=held) | (ast.Attribute() as held)], value=ast.Call()):
                        kept = Keeping(inner.place(statement), dotted(held) or "", inner.text(statement.value))
                        if kept.name and is_cached(inner, kept.name, kept.place):
                            return each, replace(kept, cached=True)
    return None


def _negated(test: ast.expr) -> ast.expr:
    opposite: dict[type, type[ast.cmpop]] = {ast.IsNot: ast.Is, ast.In: ast.NotIn}
    match test:
        case ast.Compare(left=left, ops=[operator], comparators=others) if type(operator) in opposite:
            return ast.Compare(left, [opposite[type(operator)]()], others)
    return ast.UnaryOp(ast.Not(), test)


def _asks_for(test: ast.expr, name: str) -> bool:
    match test:
        case ast.Compare(left=left, ops=[ast.Is()], comparators=[ast.Constant(value=None)]):
            return dotted(left) == name
        case ast.UnaryOp(
            op=ast.Not(), operand=ast.Call(func=ast.Name("hasattr"), args=[owner, ast.Constant(value=key)])
        ):
            return type(key) is str and f"{dotted(owner)}.{key}" == name
        case ast.Compare(ops=[ast.NotIn()], comparators=[container]):
            return dotted(container) == name
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return dotted(operand) == name
    return False


def _elements(body: Body, name: str) -> list[str]:
    """The variables that stand for an element of `name`: `bucket = self.values[k]`, `for k, bucket in ...`."""
    found: list[str] = []
    for statement in statements(body.node):
        match statement:
            case ast.Assign(targets=[ast.Name(id=target)], value=ast.Subscript(value=value)) if _leads_to(value, name):
                found.append(target)
            case ast.For(target=target, iter=iterated) if any(
                isinstance(node, ast.expr) and _is(node, name) for node in ast.walk(iterated)
            ):
                found += [node.id for node in ast.walk(target) if isinstance(node, ast.Name)]
    return list(dict.fromkeys(found))


def _kept(statement: ast.stmt, name: str) -> Iterator[ast.expr | None]:
    """Yield what a statement puts into `name`; None where it computes `name` from `name` in some other way."""
    match statement:
        case ast.AugAssign(target=target, op=ast.Add(), value=value) if _is(target, name):
            yield value.elts[0] if isinstance(value, ast.List) and len(value.elts) == 1 else value
        case ast.Assign(targets=targets, value=value) if any(
            isinstance(target, ast.Subscript) and _leads_to(target.value, name) for target in targets
        ):
            yield value
        case ast.Assign(targets=targets, value=value) if any(_binds(target, name) for target in targets):
            yield from _summed(value, name)
        case ast.Expr(value=ast.Call()):
            for node in calls_in(statement):
                if (added := _added(node, name)) is not None:
                    yield added


def _summed(value: ast.expr, name: str) -> Iterator[ast.expr | None]:
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add) and _is(value.left, name):
        yield value.right
    elif isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add) and _is(value.right, name):
        yield value.left
    elif any(not use.binds and _fits(use.name, name) for use in uses(value)):
        yield None


def _added(call: ast.Call, name: str) -> ast.expr | None:
    receiver, method = callee(call)
    if receiver is None or method not in _ADDING or not call.args or not _leads_to(receiver, name):
        return None
    return call.args[-1]


def _sums(statement: ast.stmt, name: str) -> bool:
    if isinstance(statement, ast.AugAssign):
        return not isinstance(statement.value, ast.List) and _is(statement.target, name)
    return isinstance(statement, ast.Assign) and any(_binds(target, name) for target in statement.targets)


def _leads_to(node: ast.expr, name: str) -> bool:
    """Whether `node` is `name` or something in it: `log['loss']`, `log.setdefault('loss', [])`."""
    while not _is(node, name):
        if isinstance(node, ast.Subscript):
            node = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _BETWEEN:
            node = node.func.value
        else:
            return False
    return True


def _binds(node: ast.expr, name: str) -> bool:
    return any(_binds(each, name) for each in node.elts) if isinstance(node, ast.Tuple | ast.List) else _is(node, name)


def _is(node: ast.expr, name: str) -> bool:
    written = dotted(node)
    return written is not None and _fits(written, name)


def _fits(written: str, name: str) -> bool:
    return written == name or (name.startswith(".") and written.endswith(name))
