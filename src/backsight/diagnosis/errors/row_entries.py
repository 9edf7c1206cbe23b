"""One entry of each row was meant, and `scores[:, classes]` took all of these columns from every row."""

from __future__ import annotations

import ast
from dataclasses import dataclass

import torch

from backsight.source import Place, statement_at
from backsight.source.bindings import bound
from backsight.source.body import callee, dotted, expressions
from backsight.source.rewriting import rewritten, simple
from backsight.story.failure import Failure
from backsight.story.memory import is_tensor, shape_of
from backsight.story.sections import Section, sections


@dataclass(frozen=True)
class Crossed:
    """The statement that pairs every row with every index; what it does, and how it takes one entry of each row.

    is_last: whether that gives the value that is differentiated, and so reduces it, too.
    """

    place: Place
    does: str
    fix: str
    is_last: bool


def crossed(failure: Failure, root: torch.Tensor, reduction: str) -> Crossed | None:
    """Return the index on the way to a square `root` that holds one position for each row; `reduction`: `sum` or
    `mean`."""
    rows = root.shape[0] if root.dim() == 2 and root.shape[0] == root.shape[1] else 0
    for section in sections(failure) if rows > 1 else ():
        for line in section.lines():
            statement = statement_at(section.body, line)
            for node in expressions(statement):
                if statement is not None and isinstance(node, ast.Subscript) and _is_per_row(section, node, rows):
                    return _crossed(section, statement, node, rows, reduction)
    return None


def _is_per_row(section: Section, node: ast.Subscript, rows: int) -> bool:
    """Whether an index takes all rows, `[:, each]`, and a position for each of them."""
    match node.slice:
        case ast.Tuple(elts=[ast.Slice(lower=None, upper=None, step=None), each]):
            pass
        case _:
            return False
    base, held = section.value(dotted(node.value) or ""), section.value(dotted(each) or "")
    if is_tensor(base) and (base.dim() != 2 or len(base) != rows):
        return False
    if is_tensor(held):
        return held.dtype == torch.int64 and shape_of(held) == (rows,)
    found = (callee(call)[1] for call in ast.walk(each) if isinstance(call, ast.Call))
    return any(name in ("argmax", "max", "argmin", "min", "multinomial") for name in found)


def _crossed(section: Section, statement: ast.stmt, node: ast.Subscript, rows: int, reduction: str) -> Crossed:
    body = section.body
    index = node.slice.elts[1] if isinstance(node.slice, ast.Tuple) else node.slice
    base, each = simple(body.text(node.value)), body.text(index)
    taken = f"{base}.gather(1, {simple(each)}.unsqueeze(1))"
    outer = _squeezed(statement, node)
    goals = {goal for goal, _ in section.goals} if section.level is not None else set()
    is_last = getattr(statement, "value", None) is outer and bool(bound(statement) & goals)
    line = rewritten(body, statement, {outer: f"{taken}.{reduction}()" if is_last else f"{taken}.squeeze(1)"})
    fix = f"On line {statement.lineno}, write `{line}`" if line else f"Use {taken} on line {statement.lineno}"
    does = f"takes from each of {rows} rows the columns of all rows, {rows} by {rows} numbers."
    return Crossed(body.place(statement), does, fix, is_last and bool(line))


def _squeezed(statement: ast.stmt, node: ast.expr) -> ast.expr:
    """An expression with the `.squeeze()` and the like around it, which would drop nothing any more."""
    outer = node
    for each in reversed(list(expressions(statement))):
        if isinstance(each, ast.Call) and callee(each)[0] is outer and callee(each)[1] in ("squeeze", "flatten"):
            outer = each
    return outer
