"""The same computation, as text: without changing anything in place, or as a change of the tensor it starts from."""

from __future__ import annotations

import ast

from backsight.source.bindings import Use, bound, target_names, uses
from backsight.source.body import (
    Body,
    callee,
    calls_in,
    dotted,
    expressions,
    is_compound,
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
        case ast.AugAssign(target=target, op=op) if dotted(target) and type(op) in OPERATORS:
            return written_out(body, statement)
        case ast.Expr(value=ast.Call() as call):
            changed, new = _call(body, call)
            return f"{changed} = {new}" if changed else None
        case ast.Assign(targets=[target], value=ast.Call() as call):
            changed, new = _call(body, call)
            if changed:
                return f"{body.text(target)} = {new}"
    return _going_on(body, statement) if statement is not None else None


def written_out(body: Body, statement: ast.AugAssign) -> str:
    """An augmented assignment as a plain one: `x = x - (a + b)` for `x -= a + b`."""
    target, value = body.text(statement.target), body.text(statement.value)
    if isinstance(statement.value, ast.BinOp | ast.IfExp | ast.Compare | ast.BoolOp):
        value = f"({value})"
    return f"{target} = {target} {OPERATORS[type(statement.op)]} {value}"


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
    """A statement that goes on with what its call in place returns, of what it binds, `[h.t_() for h in x]`."""
    call = only(each for each in calls_in(statement) if _is_in_place(each))
    receiver, name = callee(call) if call is not None else (None, "")
    if call is None or receiver is None or is_compound(statement) or isinstance(statement, ast.Expr):
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


def in_place(body: Body, name: str, line: int) -> str | None:
    """Return the assignment at `line`, which computes `name` from `name`, so that `name` stays the tensor it was.

    What makes a new leaf of it, `.detach()`, `.data`, `.clone()` and `.requires_grad_()`, is left out. None where the
    statement is of another form, or does nothing else.

    >>> in_place(body, "w", 12), in_place(body, "w", 13)      # w = w.clamp(min=0.1); w = F.normalize(w)
    ('w.clamp_(min=0.1)', 'w.copy_(F.normalize(w))')
    """
    match statement_at(body, line):
        case ast.Assign(targets=[target], value=value) if dotted(target) == name:
            value = _attached(value)
        case _:
            return None
    if Use(name, False) not in uses(value) or dotted(value) == name:
        return None
    match value:
        case ast.BinOp(left=left, op=op, right=right) if dotted(_attached(left)) == name and type(op) in OPERATORS:
            return f"{name} {OPERATORS[type(op)]}= {body.text(right)}"
        case ast.Call() if written := _by_namesake(body, name, value):
            return written
    return f"{name}.copy_({body.text(value)})"


def _attached(value: ast.expr) -> ast.expr:
    while True:
        match value:
            case ast.Attribute(value=inner, attr="data"):
                value = inner
            case ast.Call(func=ast.Attribute(value=inner, attr="detach" | "clone" | "requires_grad_")):
                value = inner
            case _:
                return value


def _by_namesake(body: Body, name: str, call: ast.Call) -> str | None:
    receiver, function = callee(call)
    if receiver is None or function not in _WITH_NAMESAKE:
        return None
    given = arguments(body, call)
    if dotted(_attached(receiver)) == name:
        return f"{name}.{function}_({', '.join(given)})"
    if library(receiver) == "torch" and given and given[0] == name:
        return f"{name}.{function}_({', '.join(given[1:])})"
    return None


# Methods and functions of torch of which there is one with an underscore at the end.
_WITH_NAMESAKE = frozenset(
    {"abs", "add", "addcdiv", "addcmul", "ceil", "clamp", "clamp_max", "clamp_min", "clip", "div", "exp", "floor"}
    | {"lerp", "log", "masked_fill", "mul", "nan_to_num", "neg", "pow", "relu", "renorm", "round", "sigmoid", "sqrt"}
    | {"sub", "tanh", "tril", "triu"}
)
