"""The same tensor with the gradient asked for last, so that it is a leaf, as text."""

from __future__ import annotations

import ast
import copy

from backsight.source.body import Body, callee, calls_in, dotted, expressions, is_constant, keyword, statement_at

_CONTAINERS = (ast.List, ast.Tuple, ast.Set, ast.Dict, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def leaf_last(body: Body, name: str, line: int) -> str | None:
    """Return the assignment of `name` at `line` rewritten so that it makes a leaf; None where that is not plain.

    >>> leaf_last(body, "w", 12)      # w = torch.randn(3, requires_grad=True) * 0.1
    'w = (torch.randn(3) * 0.1).requires_grad_()'
    """
    match statement_at(body, line):
        case ast.Assign(targets=[target], value=value) | ast.AnnAssign(target=target, value=ast.expr() as value):
            if dotted(target) != name or isinstance(value, _CONTAINERS):
                return None
        case _:
            return None
    try:
        rewritten = _rewritten(copy.deepcopy(value))
    except RecursionError:  # an expression of some thousand operands
        return None
    return f"{name} = {rewritten}" if rewritten else None


def element_last(statement: ast.stmt) -> str | None:
    """Return a statement that assigns a comprehension, rewritten so that each element is a leaf; or None.

    >>> element_last(statement)       # ws = [torch.randn(n, requires_grad=True) / n for n in sizes]
    'ws = [(torch.randn(n) / n).requires_grad_() for n in sizes]'
    """
    for node in expressions(statement):
        if isinstance(node, ast.ListComp) and asks_for_gradient(ast.Expr(node.elt)):
            try:
                new = _rewritten(ast.List([copy.deepcopy(node.elt)], ast.Load()), whole=False)
                memo = {id(node.elt): ast.parse(new, mode="eval").body} if new else {}
                return ast.unparse(copy.deepcopy(statement, memo)) if new else None
            except RecursionError:  # an expression of some thousand operands
                return None
    return None


def asks_for_gradient(statement: ast.stmt) -> bool:
    """Whether a statement makes a tensor that requires grad: `requires_grad=True`, `.requires_grad_()`, `Parameter`."""
    return any(without_gradient(node) is not None for node in calls_in(statement))


def _rewritten(value: ast.expr, whole: bool = True) -> str | None:
    for outer in ast.walk(value):
        for field, child in ast.iter_fields(outer):
            for position, inner in enumerate(child if isinstance(child, list) else [child]):
                if isinstance(inner, ast.Call) and (plain := without_gradient(inner)) is not None:
                    if isinstance(child, list):
                        child[position] = plain
                    else:
                        setattr(outer, field, plain)
                    asking = value if whole else value.elts[0]  # type: ignore[attr-defined]  # a list of one
                    return _asking_last(asking, inner)
    return None


def without_gradient(call: ast.Call) -> ast.expr | None:
    """What `call` makes, without asking for a gradient; None if it does not ask for one."""
    receiver, name = callee(call)
    if name == "Parameter" and call.args:
        return call.args[0]
    if name == "requires_grad_" and receiver is not None:
        return receiver
    asked = keyword(call, "requires_grad")
    if asked is None or not is_constant(asked, True):
        return None
    others = [each for each in call.keywords if each.value is not asked]
    return ast.copy_location(ast.Call(call.func, call.args, others), call)


def _asking_last(value: ast.expr, call: ast.Call) -> str:
    text = ast.unparse(value)
    if callee(call)[1] == "Parameter":
        return f"{ast.unparse(call.func)}({text})"
    plain = isinstance(value, ast.Name | ast.Attribute | ast.Call | ast.Subscript)
    return f"{text if plain else f'({text})'}.requires_grad_()"
