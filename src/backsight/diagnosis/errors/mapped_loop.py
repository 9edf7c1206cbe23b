"""A loop in a function that `torch.vmap` maps, with a number of rounds of its own for each sample."""

from __future__ import annotations

import ast
from typing import NamedTuple

from backsight.diagnosis._torch import unwrapped
from backsight.source import Body, assignments
from backsight.source.bindings import parameters_of, reads, uses
from backsight.source.body import callee, dotted, expressions, statements
from backsight.source.edits import on_line
from backsight.source.rewriting import rewritten
from backsight.story.failure import Level
from backsight.story.memory import is_tensor, shape_of, storage_of


class Rounds(NamedTuple):
    """How often a loop runs: what has it, one number for each sample, and how it runs as often for all."""

    name: str
    fix: str


def rounds(level: Level, outer: Level | None) -> Rounds | None:
    """Return what sets the length of the loop at which a level is, `for k in range(n)`; None where nothing does so."""
    loop = level.statement
    call = loop.iter if isinstance(loop, ast.For) and isinstance(loop.iter, ast.Call) else None
    if not isinstance(loop, ast.For) or call is None or callee(call)[1] not in ("range", "arange") or not call.args:
        return None
    names = [dotted(each) or "" for argument in call.args for each in expressions(ast.Expr(argument))]
    name = next((each for each in names if each and is_tensor(held := level.value(each)) and not storage_of(held)), "")
    if not name:
        return None
    fix = _selecting(level, loop, call, name, _greatest(level, outer, name)) if len(call.args) == 1 else ""
    return Rounds(
        name,
        fix
        or f"Under vmap all samples make the same number of rounds: loop up to the greatest {name}, and keep what a "
        f"sample has when its own are over, x = torch.where(k < {name}, step(x), x).",
    )


_AS = "{0} int({0}) {0}.item() int({0}.item())"
"""How a loop may write a tensor of one number."""


def _greatest(level: Level, outer: Level | None, name: str) -> str:
    """The greatest of all samples, as the function can write it: that of a global which is mapped; else empty."""
    whole = unwrapped(level.value(name))
    if outer is None or whole is None or outer.frame.f_code.co_name != "<module>":
        return ""
    code, is_its = level.frame.f_code, outer.frame.f_globals is level.frame.f_globals
    same = (
        each
        for each, held in outer.variables.items()
        if storage_of(held) == storage_of(whole) and shape_of(held) == shape_of(whole)
    )
    found = next((each for each in same if is_its and each not in (*code.co_varnames, *code.co_cellvars)), "")
    return f"int({found}.max())" if found else ""


def _selecting(level: Level, loop: ast.For, call: ast.Call, name: str, greatest: str) -> str:
    """The loop up to the greatest number, in which each sample keeps what it has when its own rounds are over."""
    body = level.body
    if body is None or not greatest or loop.orelse or body.text(call.args[0]) not in _AS.format(name).split():
        return ""
    used = {use.name for each in statements(body.node) for use in uses(each)}
    count = loop.target.id if isinstance(loop.target, ast.Name) and loop.target.id != "_" else ""
    count = count or next(each for each in ("k", "turn", "nth_round") if each not in used)
    changed = [_kept(body, loop, each, f"{count} < {name}") for each in loop.body]
    header = rewritten(body, loop, {loop.target: count, call: f"range({greatest})"})
    if not header or None in changed or not any(changed):
        return ""
    lines = [on_line(body.place(each), new) for each, new in zip(loop.body, changed, strict=True) if new]
    return (
        f"Under vmap all samples make the same number of rounds: {on_line(body.place(loop), header)}; to keep what a "
        f"sample has when its own are over, {', and '.join(lines)}."
    )


def _kept(body: Body, loop: ast.For, statement: ast.stmt, condition: str) -> str | None:
    """A statement of the loop, with the value from before where the condition is false; empty for one of a variable of
    the round alone, None where it does more."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=target)], value=value):
            anew = body.text(value)
        case ast.AugAssign(target=ast.Name(id=target), op=op, value=value):
            anew = ast.unparse(ast.BinOp(ast.Name(target), op, value))
        case _:
            return None
    end = loop.end_lineno or loop.lineno
    if not assignments(body, target, before=loop.lineno) and target not in parameters_of(body.node):
        return None if any(reads(each, target) for each in statements(body.node) if each.lineno > end) else ""
    return f"{target} = torch.where({condition}, {anew}, {target})"
