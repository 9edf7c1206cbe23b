"""A backward that chooses by the gradient it is given, where forward chooses by its input."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from typing import NamedTuple

from backsight.source import Body, Place
from backsight.source.body import callee, calls_in, dotted, expressions, statements
from backsight.source.rewriting import rewritten

_ORDERS = (ast.Gt, ast.GtE, ast.Lt, ast.LtE)


class Masked(NamedTuple):
    """The statement of backward that compares the gradient, called `gradient`, what it should compare, the statement of
    forward that does, and the first one as it is to be."""

    place: Place
    gradient: str
    saved: str
    chosen: Place
    mended: str


def masked(backward: Body, forward: Body | None, given: Collection[str]) -> Masked | None:
    """Return where backward compares the gradient with a number, though it has saved what forward compares with one.

    What was saved is unpacked there and never read. A backward that looks at both, as guided backpropagation does, or
    that has saved nothing, means it.
    """
    saved = [name for name in _unpacked(backward) if _times_read(backward, name) == 0]
    if forward is None or len(saved) != 1:
        return None
    names = _saved(forward)
    chosen = next(((s, n) for s, n in _compared(forward) if n in names), None)
    compared = next(((s, n) for s, n in _compared(backward) if n in given), None)
    if chosen is None or compared is None:
        return None
    statement, gradient = compared
    swaps: dict[ast.expr, str] = {
        side: saved[0]
        for node in expressions(statement)
        if isinstance(node, ast.Compare)
        for side in (node.left, *node.comparators)
        if isinstance(side, ast.Name) and side.id == gradient
    }
    mended = rewritten(backward, statement, swaps) or ""
    return Masked(backward.place(statement), gradient, saved[0], forward.place(chosen[0]), mended)


def _unpacked(body: Body) -> Iterator[str]:
    """Yield the variables that a backward gives what was saved."""
    for each in statements(body.node):
        if isinstance(each, ast.Assign) and (dotted(each.value) or "").endswith(".saved_tensors"):
            for goal in each.targets:
                yield from (
                    n.id for n in (goal.elts if isinstance(goal, ast.Tuple) else [goal]) if isinstance(n, ast.Name)
                )


def _times_read(body: Body, name: str) -> int:
    nodes = (node for each in statements(body.node) for node in expressions(each))
    return sum(isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load) for n in nodes)


def _saved(forward: Body) -> set[str]:
    calls = (call for each in statements(forward.node) for call in calls_in(each))
    return {
        name for call in calls if callee(call)[1] == "save_for_backward" for each in call.args if (name := dotted(each))
    }


def _compared(body: Body) -> Iterator[tuple[ast.stmt, str]]:
    """Yield the statements that compare a variable with a number, each with that variable."""
    for statement in statements(body.node):
        for node in expressions(statement):
            if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], _ORDERS):
                sides = (node.left, node.comparators[0])
                names = [each.id for each in sides if isinstance(each, ast.Name)]
                if len(names) == 1 and any(isinstance(each, ast.Constant | ast.UnaryOp) for each in sides):
                    yield statement, names[0]
