"""The same computation without changing anything in place, as text."""

from __future__ import annotations

import ast

from backsight.source.body import Body, callee, dotted, is_constant, keyword, statement_at

OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.Pow: "**",
    ast.MatMult: "@",
    ast.FloorDiv: "//",
    ast.Mod: "%",
}


def out_of_place(body: Body, line: int) -> str | None:
    """Return the statement at `line` rewritten to make a new tensor; None where it has no such form in one line.

    >>> out_of_place(body, 12), out_of_place(body, 13)      # out += shortcut; width.exp_()
    ('out = out + shortcut', 'width = width.exp()')
    """
    match statement_at(body, line):
        case ast.AugAssign(target=target, op=op, value=value) if dotted(target) and type(op) in OPERATORS:
            other = body.text(value)
            if isinstance(value, ast.BinOp | ast.IfExp | ast.Compare | ast.BoolOp):
                other = f"({other})"
            return f"{dotted(target)} = {dotted(target)} {OPERATORS[type(op)]} {other}"
        case ast.Expr(value=ast.Call() as call) | ast.Assign(value=ast.Call() as call):
            return _call(body, call)
    return None


def _call(body: Body, call: ast.Call) -> str | None:
    receiver, name = callee(call)
    arguments = ", ".join(body.text(each) for each in (*call.args, *(each.value for each in call.keywords)))
    owner = dotted(receiver) if receiver is not None else None
    if is_constant(keyword(call, "inplace"), True) and call.args and dotted(call.args[0]):
        first = dotted(call.args[0])
        rest = ", ".join(body.text(each) for each in call.args)
        return f"{first} = {body.text(call.func)}({rest})"
    if owner is None or not name.endswith("_") or name.endswith("__") or call.keywords or name in _ONLY_IN_PLACE:
        return None
    if owner.split(".")[-1] in ("torch", "F", "functional"):
        first = dotted(call.args[0]) if call.args else None
        return f"{first} = {owner}.{name[:-1]}({arguments})" if first else None
    return f"{owner} = {owner}.{name[:-1]}({arguments})"


# These have no counterpart without the underscore, or another one.
_ONLY_IN_PLACE = frozenset(
    {"zero_", "fill_", "copy_", "normal_", "uniform_", "random_", "exponential_", "set_", "resize_", "fill_diagonal_"}
)
