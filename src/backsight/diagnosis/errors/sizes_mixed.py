"""The size of another dimension, where a backward cuts out or shapes a gradient: `grad[:, :, :w, :w]` of `h` by `w`."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from backsight.source import Body, statement_at
from backsight.source.body import callee, dotted, statements
from backsight.source.rewriting import rewritten

_SHAPING = ("view", "reshape", "expand", "zeros", "ones", "empty", "new_zeros", "new_ones", "new_empty")


def sizes_mixed(body: Body, value: ast.expr, name: str, got: Sequence[int], due: Sequence[int]) -> str:
    """Say which size stands for that of another dimension, and write the right one; empty where none does."""
    sizes = _sizes(body, name, len(due))
    wrong = [k for k in range(len(due)) if got[k] != due[k]] if len(got) == len(due) else []
    statement = statement_at(body, value.lineno, value.col_offset)
    for parts in _dimensions(value, len(due)) if statement is not None and sizes and wrong else ():
        changes, told = dict[ast.expr, str](), list[str]()
        for k in wrong:
            for node in ast.walk(parts[k]):
                other = next((each for each, at in sizes.items() if at == k), "")
                if isinstance(node, ast.Name) and sizes.get(node.id, k) != k and other:
                    changes[node] = other
                    told.append(f"dimension {k} of {name} has the size {other}, not {node.id}")
        line = rewritten(body, statement, changes) if changes and statement is not None else ""
        if line:
            why = "; ".join(dict.fromkeys(told))
            return f"{why[0].upper()}{why[1:]}: on line {value.lineno}, write `{line}`."
    return ""


def _sizes(body: Body, name: str, rank: int) -> dict[str, int]:
    """The variables that hold the sizes of a tensor, with their dimensions: of `n, c, h, w = x.shape`."""
    found = dict[str, int]()
    for each in statements(body.node):
        target, value = (each.targets[0], each.value) if isinstance(each, ast.Assign) else (None, None)
        if isinstance(target, ast.Tuple) and _of_shape(value) == name and len(target.elts) == rank:
            found |= {text: k for k, part in enumerate(target.elts) if (text := dotted(part))}
        elif isinstance(target, ast.Name) and (at := _size(value, name)) is not None:
            found[target.id] = at % rank
    return found


def _of_shape(node: ast.expr | None) -> str | None:
    """`x` of `x.shape` and of `x.size()`."""
    match node:
        case ast.Attribute(tensor, "shape") | ast.Call(ast.Attribute(tensor, "size"), []):
            return dotted(tensor)
    return None


def _size(node: ast.expr | None, name: str) -> int | None:
    """The dimension whose size an expression takes from a tensor: `x.shape[-1]`, `x.size(1)`."""
    match node:
        case ast.Subscript(shape, at) if _of_shape(shape) == name:
            pass
        case ast.Call(ast.Attribute(tensor, "size"), [at]) if dotted(tensor) == name:
            pass
        case _:
            return None
    try:
        dimension = ast.literal_eval(at)
    except ValueError:
        return None
    return dimension if type(dimension) is int else None


def _dimensions(value: ast.expr, rank: int) -> Iterator[Sequence[ast.expr]]:
    """What an expression says of each dimension: the parts of an index, or the sizes of a shape."""
    for node in (value, *ast.walk(value)):
        match node:
            case ast.Subscript(slice=ast.Tuple(elts=parts)) if len(parts) == rank:
                yield parts
            case ast.Call(args=[ast.Tuple(elts=parts)]) if callee(node)[1] in _SHAPING and len(parts) == rank:
                yield parts
            case ast.Call(args=parts) if callee(node)[1] in _SHAPING and len(parts) == rank:
                yield parts
