"""A write through a boolean mask, `out[mask] = f(out[mask])`, as a selection that keeps the size."""

from __future__ import annotations

import ast
import copy
import re

from backsight.source.body import callee, dotted
from backsight.source.edits import on_line
from backsight.story.evaluated import value_of
from backsight.story.failure import Level
from backsight.story.memory import is_tensor, shape_of

_BY_ENTRY = re.compile(
    r"abs|ceil|clamp|clip|cosh?|elu|erf|exp|expm1|floor|gelu|log|log10|log1p|log2|neg|pow|reciprocal|relu|round|rsqrt"
    r"|sigmoid|sign|silu|sinh?|softplus|sqrt|square|tanh?|to|type_as|float|double|half|where"
)
"""Calls that compute each entry from the same one alone: on a part of a tensor, or on all of it."""

_UNDEFINED = frozenset({"log", "log10", "log1p", "log2", "pow", "reciprocal", "rsqrt", "sqrt"})
"""Those of them that are infinite, or NaN, for some numbers."""


def masked_write(level: Level) -> str:
    """What to write instead of a statement that writes through a mask; empty where it does not."""
    match level.statement:
        case ast.Assign(targets=[ast.Subscript() as target], value=value):
            pass
        case ast.AugAssign(target=ast.Subscript() as target, op=op, value=right):
            value = ast.BinOp(ast.Subscript(target.value, target.slice, ast.Load()), op, right)
        case _:
            return ""
    name, mask = dotted(target.value), _mask(level, target)
    if not name or not mask:
        return ""
    whole = _whole(value, target.slice)
    line = f"{name} = torch.where({mask}, {whole or 'new'}, {name})"
    if whole is None:
        return f"Keep the size: compute the new values for every entry, and select: {line}."
    guard = (
        " Where the mask is False, compute it from a value for which it is defined, because a NaN that is not selected "
        "still reaches the gradient."
    )
    undefined = any(_is_undefined(node) for node in ast.walk(value))
    return f"Compute it for every entry, and select: {on_line(level.place, line)}.{guard if undefined else ''}"


def _mask(level: Level, target: ast.Subscript) -> str:
    """The mask of a write, as it broadcasts to what is written into: with a dimension for each that it lacks."""
    held, mask = value_of(level, target.value), value_of(level, target.slice)
    text = ast.unparse(target.slice)
    if isinstance(target.slice, ast.Tuple | ast.Slice | ast.Constant):
        return ""
    if not is_tensor(held) or not is_tensor(mask):
        return text if isinstance(target.slice, ast.Compare | ast.UnaryOp | ast.BinOp) else ""
    more = len(shape_of(held) or ()) - len(shape_of(mask) or ())
    if not more:
        return text
    plain = text if dotted(target.slice) else f"({text})"
    return f"{plain}[..., {', '.join(['None'] * more)}]" if more > 0 else ""


def _whole(value: ast.expr, mask: ast.expr) -> str | None:
    """A value that reads parts through the same mask, computed of the whole; None if it may come out differently."""
    wanted = ast.dump(mask)

    class Whole(ast.NodeTransformer):
        fits = True

        def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
            if ast.dump(node.slice) == wanted:
                return node.value
            return node

        def visit_Call(self, node: ast.Call) -> ast.AST:
            self.fits = self.fits and _BY_ENTRY.fullmatch(callee(node)[1]) is not None
            return self.generic_visit(node)

        def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
            self.fits = self.fits and not isinstance(node.op, ast.MatMult)
            return self.generic_visit(node)

    whole = Whole()
    new = whole.visit(copy.deepcopy(value))
    return ast.unparse(ast.fix_missing_locations(new)) if whole.fits else None


def _is_undefined(node: ast.AST) -> bool:
    if isinstance(node, ast.BinOp):
        parts = any(isinstance(each, ast.Subscript) for each in ast.walk(node.right))
        return parts and isinstance(node.op, ast.Pow | ast.Div)
    return isinstance(node, ast.Call) and callee(node)[1] in _UNDEFINED
