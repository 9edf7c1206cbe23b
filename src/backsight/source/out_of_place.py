"""The same computation without changing anything in place, as text."""

from __future__ import annotations

import ast

from backsight.source.bindings import bound, target_names
from backsight.source.body import (
    Body,
    blocks,
    callee,
    calls_in,
    dotted,
    expressions,
    is_constant,
    keyword,
    only,
    statement_at,
)
from backsight.source.changes import HARMLESS, memory_of
from backsight.source.imports import library, meaning
from backsight.source.rewriting import rewritten, simple

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


def out_of_place(body: Body | None, line: int, column: int | None = None) -> str | None:
    """Return the statement at `line`, of several the one at `column`, rewritten to make a new tensor; None where it has
    no such form in one line.

    >>> out_of_place(body, 12), out_of_place(body, 13)      # out += shortcut; width.exp_()
    ('out = out + shortcut', 'width = width.exp()')
    """
    if body is None:
        return None
    match statement := statement_at(body, line, column):
        case ast.AugAssign(target=target, op=op, value=value) if dotted(target) and type(op) in OPERATORS:
            other = body.text(value)
            if isinstance(value, ast.BinOp | ast.IfExp | ast.Compare | ast.BoolOp):
                other = f"({other})"
            return f"{dotted(target)} = {dotted(target)} {OPERATORS[type(op)]} {other}"
        case ast.Expr(value=ast.Call() as call):
            changed, new = _call(body, call)
            return f"{changed} = {new}" if changed else None
        case ast.Assign(targets=[target], value=ast.Call() as call):
            changed, new = _call(body, call)
            if changed:
                return f"{body.text(target)} = {new}"
    return _going_on(body, statement) if statement is not None else None


def arguments(body: Body, call: ast.Call, but: str = "") -> list[str]:
    """The arguments of a call as they are written, without the one of this name."""
    named = [(each.arg, body.text(each.value)) for each in call.keywords if each.arg != but]
    return [*map(body.text, call.args), *(f"{name}={text}" if name else f"**{text}" for name, text in named)]


def _call(body: Body, call: ast.Call) -> tuple[str | None, str]:
    """What the call changes, and the call that leaves it as it was; None where there is no such call."""
    receiver, name = callee(call)
    owner = dotted(receiver) if receiver is not None else None
    if isinstance(receiver, ast.Call) and _is_in_place(call):  # `x.exp_().mul_(y)`
        changed, before = _call(body, receiver)
        return (changed, f"{before}.{name[:-1]}({', '.join(arguments(body, call))})") if changed else (None, "")
    first = dotted(call.args[0]) if call.args else None
    if is_constant(keyword(call, "inplace"), True):
        return first, f"{body.text(call.func)}({', '.join(arguments(body, call, but='inplace'))})"
    if owner is None or not _is_in_place(call) or call.keywords:
        return None, ""
    if meaning(receiver) == "torch.nn.init":  # where no function has a namesake without underscore
        return None, ""
    return first if library(receiver) else owner, f"{owner}.{name[:-1]}({', '.join(arguments(body, call))})"


def _going_on(body: Body, statement: ast.stmt) -> str | None:
    """A statement that goes on with what its one call in place returns, `[h.squeeze_(0) for h in parts]`, of what it
    binds itself: nothing else reads what that call leaves changed."""
    call = only(each for each in calls_in(statement) if _is_in_place(each))
    receiver, name = callee(call) if call is not None else (None, "")
    if call is None or receiver is None or any(True for _ in blocks(statement)) or isinstance(statement, ast.Expr):
        return None
    inner = [each.target for node in expressions(statement) for each in getattr(node, "generators", ())]
    if memory_of(receiver) not in bound(statement).union(*map(target_names, inner)):
        return None
    new = f"{simple(body.text(receiver))}.{name[:-1]}({', '.join(arguments(body, call))})"
    return rewritten(body, statement, {call: new}) or None


def _is_in_place(call: ast.Call) -> bool:
    """Whether a call works in place, and has a namesake without the underscore."""
    _, name = callee(call)
    return name.endswith("_") and not name.endswith("__") and name not in _ONLY_IN_PLACE | HARMLESS


# These have no counterpart without the underscore, or another one.
_ONLY_IN_PLACE = frozenset(
    {"zero_", "fill_", "copy_", "normal_", "uniform_", "random_", "exponential_", "set_", "resize_", "fill_diagonal_"}
)
