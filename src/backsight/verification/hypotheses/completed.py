"""A statement of a backward with a factor where it is missing, or without one that is too many.

The backward runs so before it is said: with it the gradient must be right, and that of no other input wrong.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Sequence
from itertools import islice
from types import FunctionType
from typing import Any

import torch

from backsight.source import Body
from backsight.source.body import expressions, statements
from backsight.source.rewriting import rewritten
from backsight.verification.case import Case, Draw
from backsight.verification.trial import Pull, agree
from backsight.verification.written import argument_number

MOST = 40
"""So many terms are tried: each is a backward that runs once for each draw."""


def completed(case: Case, factor: str) -> str:
    """Return `On line 16, write grad_x = grad_output * (s + beta * x * s * (1 - s))`; empty where no term is the one.

    The backward runs with the factor before one term after another, the last ones first.
    """
    body = case.written.body if case.written else None
    for statement, term in islice(_terms(body), MOST) if body else ():
        text = body.text(term)  # type: ignore[union-attr]
        if fix := right_with(case, statement, term, f"{text} * {factor}" if text[0] == "-" else f"{factor} * {text}"):
            return fix
    return ""


def lightened(case: Case) -> str:
    """Return `On line 31, remove / len(x) from the gradient of w`: the one factor, or divisor, that is too many.

    A mean may have to be a sum, and a sum a mean. Empty where nothing is the one, or several may be.
    """
    body = case.written.body if case.written else None
    shorter = islice(_shorter(body), MOST) if body else ()
    found = [(line, how) for line, part, new, how in shorter if _is_right_with(case, part, new)]
    return f"On line {found[0][0]}, {found[0][1]} the gradient of `{case.argument}`" if len(found) == 1 else ""


def right_with(case: Case, statement: ast.stmt, expression: ast.expr, new: str) -> str:
    """Return how a statement of the backward reads with a text in place of an expression, if that is right.

    The backward runs so, once for each draw; empty where it cannot, where it is still wrong, or where the gradient of
    another input is then another and not right.
    """
    body = case.written.body if case.written else None
    line = _line(body, statement, expression, new) if body and _is_right_with(case, expression, new) else ""
    return f"On line {statement.lineno}, write `{line}`" if line else ""


def _is_right_with(case: Case, expression: ast.expr, new: str) -> bool:
    body = case.written.body if case.written else None
    function = case.definition.backward if case.definition else None
    if body is None or function is None or function.__code__.co_freevars or case.place is None or not case.single:
        return False
    changed = _with(body, function, expression, new)
    if changed is None:
        return False
    made = {draw: _gradients(case, changed, draw.us) for draw in case.draws}
    return case.fits(lambda draw: made[draw][case.number]) and _spares_others(case, made)


def _line(body: Body, statement: ast.stmt, expression: ast.expr, new: str) -> str:
    """A statement with a text in place of an expression, in parentheses where it needs them; empty where it is long."""
    meant = copy.deepcopy(statement, {id(expression): ast.parse(new, mode="eval").body})
    for text in (new, f"({new})"):
        line = rewritten(body, statement, {expression: text})
        try:
            if ast.dump(ast.parse(line)) == ast.dump(ast.Module([meant], [])):
                return line
        except SyntaxError:  # it is the first line of several
            continue
    return ""


def _terms(body: Body) -> Iterator[tuple[ast.stmt, ast.expr]]:
    """The terms of the sums of a function, and all that it assigns or returns, the last ones first."""
    for statement in sorted(statements(body.node), key=lambda each: -each.lineno):
        value = statement.value if isinstance(statement, ast.Assign | ast.Return) else None
        wholes = value.elts if isinstance(value, ast.Tuple) else [value]
        for node in expressions(statement) if value is not None else ():
            terms = [node] * (node in wholes) + _added_up(node)
            yield from ((statement, each) for each in terms if not isinstance(each, ast.Tuple) and not _is_sum(each))


def _added_up(node: ast.expr) -> list[ast.expr]:
    """The terms of a sum: of `a + b`, and what a call of `sum` or `mean` adds up."""
    match node:
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub(), right=right):
            return [left, right]
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr="sum" | "mean"), args=[added, *_]):
            return [added]
        case ast.Call(func=ast.Attribute(value=added, attr="sum" | "mean")):
            return [added]
    return []


def _shorter(body: Body) -> Iterator[tuple[int, ast.expr, str, str]]:
    """Each product and quotient without one operand, a mean as a sum and a sum as a mean, the last ones first.

    The line, the expression, what takes its place, and that in words.
    """
    for statement in sorted(statements(body.node), key=lambda each: -each.lineno):
        for node in expressions(statement):
            match node:
                case ast.BinOp(left=left, op=ast.Div() | ast.Mult() as op, right=right):
                    sign = "/" if isinstance(op, ast.Div) else "*"
                    yield node.lineno, node, body.text(left), f"remove `{sign} {_operand(body, right)}` from"
                    if sign == "*":
                        yield node.lineno, node, body.text(right), f"remove `{_operand(body, left)} *` from"
                case ast.Call(func=ast.Attribute(attr="sum" | "mean" as name) as called):
                    other = "mean" if name == "sum" else "sum"
                    new = body.text(called).removesuffix(name) + other
                    yield called.lineno, called, new, f"write `{other}` instead of `{name}` in"


def _operand(body: Body, node: ast.expr) -> str:
    return f"({body.text(node)})" if isinstance(node, ast.BinOp) else body.text(node)


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


def _gradients(case: Case, run: Any, us: Sequence[torch.Tensor]) -> list[torch.Tensor | None]:
    """What a changed backward returns for each wanted input; nothing but None where it raises, or that is not plain."""
    places = [argument_number(case.operation, position) for position in case.point.wanted]
    try:
        with torch.no_grad():
            returned = run(case.point.node, *us)
        found = [returned[place[0]] if isinstance(returned, tuple) else returned for place in places if place]
    except Exception:
        found = []
    if len(found) < len(places):
        return [None] * len(places)
    return [each if isinstance(each, torch.Tensor) else None for each in found]  # `g * 2` without `g *` is a number


def _spares_others(case: Case, made: dict[Draw, list[torch.Tensor | None]]) -> bool:
    """Whether the gradients of other inputs stay as they are, or become right: a variable may be used for several."""
    generator = torch.Generator().manual_seed(0)
    for k, draw in enumerate(case.draws):
        gradients = made[draw]
        changed = [
            number
            for number, gradient in enumerate(gradients)
            if number != case.number and not _is_same(gradient, case.returned_for(number)[k])
        ]
        if changed and not agree(Pull(case.point, draw.us, gradients, gradients), changed, generator):
            return False
    return True


def _is_same(a: torch.Tensor | None, b: torch.Tensor | None) -> bool:
    if a is None or b is None:
        return a is b
    return a.shape == b.shape and torch.allclose(a, b, rtol=1e-6, equal_nan=True)
