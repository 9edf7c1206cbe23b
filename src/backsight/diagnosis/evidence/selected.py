"""An `if` written as statements that compute both branches and select, for all samples at once."""

from __future__ import annotations

import ast

import torch

from backsight.diagnosis.wording import listed
from backsight.source import Body
from backsight.source.bindings import bound, uses
from backsight.source.body import block_of, blocks, dotted
from backsight.source.edits import remove, write
from backsight.story.evaluated import value_of
from backsight.story.failure import Level
from backsight.story.memory import is_tensor


def selected(level: Level, body: Body, choice: ast.If) -> str:
    """An `if` as statements that compute both branches and select: what each of them returns, or assigns."""
    test = as_tensor(level, choice.test)
    returned = _returned(level, body, choice)
    if returned:
        return returned
    lines = _assigned(choice, test)
    if lines:
        where = f"line{'s' * (_end(choice) > choice.lineno)} {choice.lineno}"
        where += f" to {_end(choice)}" if _end(choice) > choice.lineno else ""
        edit = write(body.place(choice), "\n".join(lines))
        told = listed([f"`{each}`" for each in lines])
        return f"Compute both branches and select: write {told} instead of {where}{edit}."
    return f"Compute both branches and select, for each result: torch.where({test}, a, b)."


def _returned(level: Level, body: Body, choice: ast.If) -> str:
    """Where a branch returns, and the other does, or what follows: one return at the end of both; else empty."""
    after, mine = _after(body, choice), choice.body[0]
    rest = choice.orelse or after
    other = rest[-1] if rest else None
    if not isinstance(mine, ast.Return) or not isinstance(other, ast.Return) or len(choice.orelse) > 1:
        return ""
    if mine.value is None or other.value is None or any(True for each in rest for _ in blocks(each)):
        return ""
    new = f"return torch.where({as_tensor(level, choice.test)}, {whole(mine.value)}, {whole(other.value)})"
    if len(rest) == 1:
        edit = write([body.place(choice), body.place(other)], new)
        instead = f"instead of lines {choice.lineno} to {_end(other)}"
        return f"Compute both branches and select: write `{new}` {instead}{edit}."
    read = {use.name for each in (choice.test, mine.value) for use in uses(each)}
    if read & {name for each in rest for name in bound(each)}:
        return ""
    gone = [each for each in ast.walk(choice) if isinstance(each, ast.stmt)]
    edits = f"{remove([*map(body.place, gone)])}{write(body.place(other), new)}"
    return (
        f"Compute both branches and select: remove lines {choice.lineno} to {_end(choice)}, and on line "
        f"{other.lineno} write `{new}`{edits}."
    )


def _after(body: Body, choice: ast.If) -> list[ast.stmt]:
    """The statements that follow an `if` in its own block."""
    block = block_of(body, choice)
    return block[block.index(choice) + 1 :] if choice in block else []


def _assigned(choice: ast.If, test: str) -> list[str]:
    """What branches assign, each as a selection; none where one does something else, or reads another of them."""
    mine, other = _values(choice.body), _values(choice.orelse)
    if mine is None or other is None or (choice.orelse and mine.keys() != other.keys()):
        return []
    read = [use.name for value in [choice.test, *mine.values(), *other.values()] for use in uses(value)]
    if len(mine) > 1 and any(read.count(name) > 1 for name in mine):
        return []
    chosen = {name: _chosen(test, value, other[name] if other else None, name) for name, value in mine.items()}
    return [f"{name} = {value}" for name, value in chosen.items()] if all(chosen.values()) else []


def _chosen(test: str, value: ast.expr, otherwise: ast.expr | None, name: str) -> str:
    """The selection between a value and another, or what `name` holds; empty if they are no tensors."""
    if isinstance(value, ast.Dict | ast.List | ast.Tuple | ast.DictComp | ast.ListComp | ast.Set | ast.GeneratorExp):
        return ""
    return f"torch.where({test}, {whole(value)}, {whole(otherwise) if otherwise else name})"


def _values(block: list[ast.stmt]) -> dict[str, ast.expr] | None:
    """The names that a block assigns, each once, with the values; None where it does something else."""
    found: dict[str, ast.expr] = {}
    for each in block:
        match each:
            case ast.Assign(targets=[target], value=value) if name := dotted(target):
                pass
            case ast.AugAssign(target=target, op=op, value=value) if name := dotted(target):
                value = ast.BinOp(ast.parse(name, mode="eval").body, op, value)
            case _:
                return None
        if name in found:
            return None
        found[name] = value
    return found


def whole(node: ast.expr) -> str:
    return ast.unparse(ast.fix_missing_locations(node))


def _end(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno


def as_tensor(level: Level, test: ast.expr) -> str:
    """A condition as it is computed for all samples at once: `(a > 0) & (b < 1)` for `a > 0 and b < 1`."""
    match test:
        case ast.BoolOp(op=op, values=values):
            return (" & " if isinstance(op, ast.And) else " | ").join(f"({as_tensor(level, each)})" for each in values)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return f"~({as_tensor(level, operand)})"
        case ast.Compare(left=left, ops=[_, _, *_] as ops, comparators=comparators):
            pairs = zip([left, *comparators], ops, comparators, strict=False)
            return " & ".join(f"({whole(ast.Compare(a, [op], [b]))})" for a, op, b in pairs)
        case ast.Call(func=ast.Name(id="bool"), args=[inner]):
            return as_tensor(level, inner)
        case ast.Name() | ast.Attribute() | ast.Subscript():
            value = value_of(level, test)
            return whole(test) if is_tensor(value) and value.dtype == torch.bool else f"{whole(test)} != 0"
    return whole(test)
