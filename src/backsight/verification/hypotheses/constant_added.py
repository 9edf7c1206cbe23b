"""BS402: backward adds something that is not multiplied by grad_output."""

from __future__ import annotations

import ast

import torch

from backsight.verification.case import Case, Known
from backsight.verification.hypotheses.explanation import Explanation
from backsight.verification.wording import number


def constant_added(case: Case) -> Explanation | None:
    """A grad_output of zeros does not give zero, and the rest is linear in grad_output."""
    added, together = case.at_zero, case.together
    if added is None or together is None:
        return None
    here = case.at(added)
    scale = float(case.at(case.draws[0].got).abs().max())
    if not float(here.abs().max()) > 1e-9 * max(scale, 1e-12):
        return None
    first, second = (draw.got for draw in case.draws)
    if not bool(case.equal(case.at(together), case.at(first + second - added)).all()):
        return None
    judged = Known.FORWARD in case.known
    bracketed = judged and case.elementwise and case.fits(lambda draw: draw.got - added + draw.u * added)
    surplus = judged and not bracketed and case.fits(lambda draw: draw.got - added)
    what = number(here[0]) if bool((here == here[0]).all()) else "a term"
    evidence = [
        f"For a {case.grad_output} of zeros it returns {_amount(here)} for `{case.argument}`; it must return 0: "
        "without an incoming gradient there is no outgoing gradient."
    ]
    fix = "Multiply every term of the derivative by grad_output."
    if bracketed:
        evidence.append(
            f"grad_output * a + b is not grad_output * (a + b): with {what} inside the parentheses every entry is "
            "right. A test with loss = out.sum() cannot see this, because grad_output is 1 there."
        )
        fix = _brackets(case) or "Put the sum in parentheses: grad_output * (... + ...)."
    elif surplus:
        evidence.append("Without it every entry is right.")
        fix = "Remove the added term."
    elif not judged and (brackets := _brackets(case)):
        fix = f"If it belongs to the derivative: {brackets[:1].lower()}{brackets[1:]} If not, remove it."
    return Explanation(f"{case.subject} adds {what} without multiplying it by grad_output.", tuple(evidence), fix)


def _amount(here: torch.Tensor) -> str:
    if bool((here == here[0]).all()):
        return f"{number(here[0])} in every entry"
    return f"values from {number(here.real.min())} to {number(here.real.max())}"


def _brackets(case: Case) -> str:
    """Return the fix in the user's own symbols: `grad_output * (6 * input + 2)`."""
    found = case.returned
    if found is None or case.written is None:
        return ""
    name = case.grad_output
    match found:
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as sign, right=right):
            pass
        case _:
            return ""
    inside = [_without(side, name) for side in (left, right)]
    if (inside[0] is None) == (inside[1] is None):  # both are multiplied by it, or neither
        return ""
    terms = [ast.unparse(inner or side) for inner, side in zip(inside, (left, right), strict=True)]
    symbol = "+" if isinstance(sign, ast.Add) else "-"
    return f"Put the sum in parentheses: `{name} * ({terms[0]} {symbol} {terms[1]})`."


def _without(product: ast.expr, name: str) -> ast.expr | None:
    """Return a product without its factor `name`; None where it has no such factor, or nothing else."""
    factors: list[ast.expr] = []
    while isinstance(product, ast.BinOp) and isinstance(product.op, ast.Mult):
        factors.append(product.right)
        product = product.left
    factors.append(product)
    factors.reverse()
    rest = [each for each in factors if not (isinstance(each, ast.Name) and each.id == name)]
    if len(rest) != len(factors) - 1 or not rest:
        return None
    made = rest[0]
    for each in rest[1:]:
        made = ast.BinOp(made, ast.Mult(), each)
    return made
