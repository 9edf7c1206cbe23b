"""BS406: a backward adds up over another dimension than the one with which its gradient is right."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import islice

from backsight.source import Body
from backsight.source.body import calls_in, statements
from backsight.verification.case import Case
from backsight.verification.hypotheses.completed import MOST, right_with
from backsight.verification.hypotheses.explanation import Explanation

_SUMS = ("sum", "mean")


def wrong_dimension(case: Case) -> Explanation | None:
    """The backward is right with another number for the dimension of one of its sums or means."""
    body = case.written.body if case.written else None
    if body is None or not case.single:
        return None
    dims = range(-1, max(case.input.dim(), case.output.dim()) - 1)  # as people write it: the last one is -1
    tries = ((*each, dim) for each in _sums(body) for dim in dims if _number(each[2]) != dim)
    for statement, call, place, dim in islice(tries, MOST):
        if fix := right_with(case, statement, place, str(dim)):
            kind = call.func.attr  # type: ignore[attr-defined]  # as in _sums
            return Explanation(
                f"{case.subject} takes a {kind} over the wrong dimension for the gradient of `{case.argument}`.",
                (f"With {dim} in place of {_number(place)} in `{body.text(call)}`, every entry is right.",),
                f"{fix}.",
            )
    return None


def _sums(body: Body) -> Iterator[tuple[ast.stmt, ast.Call, ast.expr]]:
    """Yield the sums and means over one dimension, with their statement and the number of the dimension."""
    for statement in statements(body.node):
        for node in calls_in(statement):
            if isinstance(node.func, ast.Attribute) and node.func.attr in _SUMS:
                of_torch = isinstance(node.func.value, ast.Name) and node.func.value.id == "torch"
                named = [each.value for each in node.keywords if each.arg == "dim"]
                given = [*node.args[of_torch:], *named][:1]
                yield from ((statement, node, each) for each in given if _number(each) is not None)


def _number(value: ast.expr) -> int | None:
    """Return an integer that stands in the text; None for anything else."""
    try:
        found = ast.literal_eval(value)
    except (ValueError, TypeError):
        return None
    return found if type(found) is int else None
