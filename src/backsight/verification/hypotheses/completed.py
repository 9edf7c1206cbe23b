"""A statement of a backward with a factor where it is missing: in the one term with which the gradient is right."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Sequence
from types import FunctionType
from typing import Any

import torch

from backsight.source import Body
from backsight.source.body import expressions, statements
from backsight.source.rewriting import rewritten
from backsight.verification.case import Case

MOST = 40
"""So many terms are tried: each is a backward that runs once for each draw."""


def completed(case: Case, factor: str) -> str:
    """Return `On line 16, write grad_x = grad_output * (s + beta * x * s * (1 - s))`; empty where no term is the one.

    The backward runs with the factor before one term after another, the last ones first.
    """
    body = case.written.body if case.written else None
    for statement, term in list(_terms(body))[:MOST] if body else ():
        if fix := right_with(case, statement, term, f"{factor} * {body.text(term)}"):  # type: ignore[union-attr]
            return fix
    return ""


def right_with(case: Case, statement: ast.stmt, expression: ast.expr, new: str) -> str:
    """Return how a statement of the backward reads with a text in place of an expression, if that is right.

    The backward runs so, once for each draw; empty where it cannot, or is still wrong.
    """
    body = case.written.body if case.written else None
    function = case.definition.backward if case.definition else None
    if body is None or function is None or function.__code__.co_freevars or case.place is None or not case.single:
        return ""
    changed = _with(body, function, expression, new)
    if changed is None or not case.fits(lambda draw: _gradient(case, changed, draw.us)):
        return ""
    line = rewritten(body, statement, {expression: new})
    return f"On line {statement.lineno}, write `{line}`" if line else ""


def _terms(body: Body) -> Iterator[tuple[ast.stmt, ast.expr]]:
    """The terms of the sums of a function, and the whole of what it assigns or returns, the last ones first."""
    for statement in sorted(statements(body.node), key=lambda each: -each.lineno):
        value = statement.value if isinstance(statement, ast.Assign | ast.Return) else None
        for node in expressions(statement) if value is not None else ():
            terms = (node.left, node.right) if _is_sum(node) else (node,) if node is value else ()  # type: ignore[attr-defined]
            yield from ((statement, each) for each in terms if not isinstance(each, ast.Tuple) and not _is_sum(each))


def _is_sum(node: ast.expr) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub)


def _with(body: Body, function: FunctionType, term: ast.expr, new: str) -> Any:
    """A function with a text in place of one of its expressions; None where it cannot be made."""
    try:
        node = copy.deepcopy(body.node, {id(term): ast.parse(f"({new})", mode="eval").body})
        node.decorator_list = []  # type: ignore[union-attr]
        names = dict(function.__globals__)
        exec(compile(ast.fix_missing_locations(ast.Module([node], [])), body.file, "exec"), names)  # type: ignore[list-item]
        return names[function.__name__]
    except Exception:
        return None


def _gradient(case: Case, run: Any, us: Sequence[torch.Tensor]) -> torch.Tensor | None:
    """What a changed backward returns for the input, for one grad_output; None where it raises."""
    assert case.place is not None
    try:
        with torch.no_grad():
            returned = run(case.point.node, *us)
        found = returned[case.place[0]] if isinstance(returned, tuple) else returned
    except Exception:
        return None
    return found if isinstance(found, torch.Tensor) else None
