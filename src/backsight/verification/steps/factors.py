"""The other factor of a product, as its author writes it."""

from __future__ import annotations

import ast

import torch

from backsight.source import statement_at
from backsight.source.body import body_around, expressions
from backsight.verification.steps.step import Step


def other_factor(step: Step, number: int) -> str:
    """Return the text of the other operand: `beta` of `beta * x` for x; empty where the source does not show it."""
    if step.name != "mul" or step.place is None or len(step.args) != 2:
        return ""
    file, line, column = step.place
    body = body_around(file, line)
    statement = statement_at(body, line, column) if body else None
    products = [
        each
        for each in (expressions(statement) if statement is not None else ())
        if isinstance(each, ast.BinOp) and isinstance(each.op, ast.Mult)
        if column is None or (each.lineno, each.col_offset) == (line, column)
    ]
    if body is None or len(products) != 1:
        return ""
    sides = [products[0].left, products[0].right]
    if isinstance(step.args[1 - number], torch.Tensor):
        other = sides[1 - number]
    elif len(numbers := [each for each in sides if isinstance(each, ast.Constant)]) == 1:  # 2 * x runs as x * 2
        other = numbers[0]
    else:
        return ""
    is_simple = isinstance(other, ast.Name | ast.Attribute | ast.Call | ast.Subscript | ast.Constant)
    return body.text(other) if is_simple else f"({body.text(other)})"
