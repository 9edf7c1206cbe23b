"""BS403: the gradient has the wrong sign."""

from __future__ import annotations

import ast
import copy

from backsight.verification.case import Case
from backsight.verification.hypotheses.explanation import Explanation, of_every_entry

LONG = 60
"""A longer expression is not written out again."""


def wrong_sign(case: Case) -> Explanation | None:
    """The gradient is minus the right one."""
    if not case.fits(lambda draw: -draw.got):
        return None
    evidence = (
        of_every_entry(case, f"Every entry that it returns for `{case.argument}` is -1 times the right one"),
        "An optimizer would climb instead of descend.",
    )
    expression = case.returned
    if case.through:
        fix = f"Negate the part that arrives{case.through} and no other."
    elif expression and len(ast.unparse(expression)) <= LONG:
        fix = f"Negate it: `{_negated(expression)}`."
    else:
        fix = "Negate it."
    what = f"{case.subject} returns the gradient of `{case.argument}`"
    arrived = f" that arrives{case.through}" if case.through else ""
    return Explanation(f"{what}{arrived} with the wrong sign.", evidence, fix)


def _negated(expression: ast.expr) -> str:
    """`-g` for `g`, `g * x` for `-g * x`: the sign of the first factor."""
    expression = copy.deepcopy(expression)
    parent, factor = None, expression
    while isinstance(factor, ast.BinOp) and isinstance(factor.op, ast.Mult | ast.Div | ast.MatMult):
        parent, factor = factor, factor.left
    turned = (
        factor.operand
        if isinstance(factor, ast.UnaryOp) and isinstance(factor.op, ast.USub)
        else ast.UnaryOp(ast.USub(), factor)
    )
    if parent is None:
        return ast.unparse(turned)
    parent.left = turned
    return ast.unparse(expression)
