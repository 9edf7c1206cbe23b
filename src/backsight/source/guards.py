"""Conditions that hold only later: a statement that has not run may run as soon as a counter is far enough."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from backsight.source.bindings import spots
from backsight.source.body import LOOPS, Body, callee, callers, calls_in, covers, dotted, functions, statements

_ORDERS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_LEAVES = (ast.Return, ast.Continue)


def begins_later(body: Body, line: int, times: int) -> bool:
    """Whether a statement may run later than after so many iterations: `if step >= start:`, `if step % 1000 == 0:`.

    A condition around the backward itself is met in each of them. The function that the statement stands in is followed
    to its calls in the file, unless it trains itself.
    """
    bodies = [(body, line)]
    if not _trains(body.node):
        bodies += [(each, statement.lineno) for each, statement, _ in callers(body)]
    return any(_is_late(each.file, test, times) for each, at in bodies for test in _tests(each, at))


def _tests(body: Body, line: int) -> Iterator[ast.expr]:
    """Yield the conditions around a line, and those before it that leave the loop or the function around it."""
    for spot in spots(body.node):
        node = spot.node
        if not isinstance(node, ast.If):
            continue
        if covers(node, line):
            if not _trains(node):
                yield node.test
        elif node.lineno < line and isinstance(node.body[-1], _LEAVES):
            around: list[ast.AST] = [*spot.around(*LOOPS)] or [body.node]
            inside = isinstance(around[-1], ast.Module) or line <= (getattr(around[-1], "end_lineno", None) or 0)
            if inside and not _trains(around[-1], node.lineno):
                yield node.test


def _trains(node: ast.AST, after: int = 0) -> bool:
    calls = (each for each in ast.walk(node) if isinstance(each, ast.Call) and each.lineno > after)
    return any(callee(each)[1] == "backward" for each in calls)


def _is_late(file: str, test: ast.expr, times: int) -> bool:
    for node in ast.walk(test):
        if isinstance(node, ast.Compare) and any(isinstance(each, _ORDERS) for each in node.ops):
            return True
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
            every = _numbers(file, node.right)
            return not every or max(every) > times
    return False


def _numbers(file: str, value: ast.expr) -> list[float]:
    """Return the numbers that a file gives a variable of this name, or an argument."""
    if isinstance(value, ast.Constant):
        return _number(value)
    name = (dotted(value) or "").split(".")[-1]
    found: list[float] = []
    for body in functions(file):
        arguments = getattr(body.node, "args", None)
        if isinstance(arguments, ast.arguments):
            every = [*arguments.posonlyargs, *arguments.args]
            given = [*zip(reversed(every), reversed(arguments.defaults), strict=False)]
            given += [(a, d) for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if d is not None]
            found += [n for argument, default in given if argument.arg == name for n in _number(default)]
        for statement in statements(body.node):
            goals = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
            if any((dotted(goal) or "").split(".")[-1] == name for goal in goals):
                found += _number(getattr(statement, "value", None))
            for call in calls_in(statement):
                found += [n for each in call.keywords if each.arg == name for n in _number(each.value)]
    return found


def _number(value: ast.AST | None) -> list[float]:
    number = value.value if isinstance(value, ast.Constant) else None
    return [float(number)] if isinstance(number, int | float) else []
