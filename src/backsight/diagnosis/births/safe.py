"""Expressions rewritten so that they stay finite, and the masks around them."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable

from backsight.source import parsed
from backsight.source.edits import OR
from backsight.source.imports import library

_WHERE = frozenset({"where"})


def replaced(expression: str, part: str, by: str) -> str:
    """Return `expression` with `part` replaced wherever it occurs; empty if it does not.

    >>> replaced("torch.sqrt(x)", "x", "x + 1e-12")
    'torch.sqrt(x + 1e-12)'
    """
    whole, wanted, new = parsed(expression), parsed(part), parsed(by)
    if whole is None or wanted is None or new is None:
        return ""
    swap = _Swap(ast.dump(wanted), new)
    changed = swap.visit(whole)
    return re.sub(r"e-0(\d)", r"e-\1", ast.unparse(changed)) if swap.done else ""


def root_kept_away(expression: str, inside: str, edit: Callable[[str], str] = lambda _: "") -> str:
    """Say how a square root is written that has a gradient at 0 as well; `edit` gives the mark that writes it."""
    new = replaced(expression, inside, f"({inside}) + 1e-12") if inside else ""
    added = f"{new}{edit(new)}" if new else "torch.sqrt(x + 1e-12)"
    if re.search(r"\*\*\s*2|square|pow\(2", inside) and "sum(" in inside:
        return f"torch.linalg.vector_norm, whose gradient at 0 is 0; {OR}or a small number inside the sqrt: {added}."
    return f"Add a small number inside the sqrt, not outside it: {added}."


def condition_around(statement: str, expression: str) -> str:
    """Return when a `torch.where` in `statement` takes `expression`: `x > 0`; empty where there is none."""
    tree, wanted = _statement(statement), parsed(expression)
    if tree is None or wanted is None:
        return ""
    inside = ast.dump(wanted)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or _name(node.func) not in _WHERE:
            continue
        arguments = list(node.args)
        if isinstance(node.func, ast.Attribute) and not library(node.func):
            arguments = [arguments[0], node.func.value, *arguments[1:]] if arguments else []  # x.where(condition, y)
        if len(arguments) == 3:
            for branch, negated in ((arguments[1], False), (arguments[2], True)):
                if any(ast.dump(each) == inside for each in ast.walk(branch)):
                    return _negated(arguments[0]) if negated else ast.unparse(arguments[0])
    return ""


class _Swap(ast.NodeTransformer):
    def __init__(self, wanted: str, new: ast.expr):
        self.wanted, self.new, self.done = wanted, new, False

    def visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.expr) and ast.dump(node) == self.wanted:
            self.done = True
            return self.new
        return super().visit(node)  # type: ignore[no-any-return]  # a node, as ast types it


_OPPOSITE: dict[type[ast.cmpop], ast.cmpop] = {
    ast.Eq: ast.NotEq(),
    ast.NotEq: ast.Eq(),
    ast.Lt: ast.GtE(),
    ast.LtE: ast.Gt(),
    ast.Gt: ast.LtE(),
    ast.GtE: ast.Lt(),
}


def _negated(condition: ast.expr) -> str:
    """`x != 0` of `x == 0`; `~(mask)` of what is no comparison."""
    if isinstance(condition, ast.Compare) and len(condition.ops) == 1 and type(condition.ops[0]) in _OPPOSITE:
        opposite = _OPPOSITE[type(condition.ops[0])]
        return ast.unparse(ast.Compare(condition.left, [opposite], condition.comparators))
    if isinstance(condition, ast.UnaryOp) and isinstance(condition.op, ast.Invert):
        return ast.unparse(condition.operand)
    written = ast.unparse(condition)
    return f"~{written}" if isinstance(condition, ast.Name | ast.Attribute) else f"~({written})"


def _statement(text: str) -> ast.AST | None:
    for whole in (text, f"{text} pass"):  # the head of a compound statement
        try:
            return ast.parse(whole)
        except (SyntaxError, ValueError):
            continue
    return None


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
