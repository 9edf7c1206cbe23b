"""The only part of an argument that a custom Function's forward reads: `scales[:, :2]`."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from backsight.diagnosis.evidence.custom import Applied, body_of
from backsight.source import Body, Place
from backsight.source.body import callee, dotted, expressions, statements


class PartRead(NamedTuple):
    """The statement, the part as it is written, and how its gradient becomes the argument's.

    dims: the dimensions that an index has removed. padding: the zeros before and after it, of the last dimension first;
    None where the part is not of consecutive entries, or where it begins is not known.
    """

    place: Place
    text: str
    dims: tuple[int, ...]
    padding: tuple[int, ...] | None

    def whole(self, gradient: str) -> str:
        """The gradient of the argument, as text, from that of the part."""
        for dim in self.dims:
            gradient = f"({gradient}).unsqueeze({dim})"
        return f"torch.nn.functional.pad({gradient}, {self.padding})" if any(self.padding or ()) else gradient


def part_read(found: Applied, name: str, got: Sequence[int], due: Sequence[int]) -> PartRead | None:
    """Return the part of an argument of shape `due` that forward reads, where the part can have the shape `got`, and
    forward reads nothing else of it."""
    body = body_of(found.cls, "forward")
    reads = list(_reads(body, name)) if body is not None else []
    statement, node = reads[0] if len(reads) == 1 else (None, None)
    spans = _spans(node.slice, got, due) if isinstance(node, ast.Subscript) else None
    if body is None or statement is None or node is None or spans is None:
        return None
    dims = tuple(k for k, span in enumerate(spans) if span is not None and span.removed)
    sides = [(0, 0) if span is None else (span.start, due[k] - span.end) for k, span in enumerate(spans)]
    while len(sides) > 1 and sides[0] == (0, 0):
        sides.pop(0)
    padding = tuple(side for pair in reversed(sides) for side in pair)
    return PartRead(body.place(statement), body.text(node), dims, None if None in spans else padding)


def _reads(body: Body, name: str) -> Iterator[tuple[ast.stmt, ast.expr]]:
    """Every expression that reads values of an argument, until the name stands for something else."""
    parents = {child: node for node in ast.walk(body.node) for child in ast.iter_child_nodes(node)}
    for statement in statements(body.node):
        names = [node for node in expressions(statement) if isinstance(node, ast.Name) and node.id == name]
        for node in names:
            around = parents[node]
            if isinstance(node.ctx, ast.Load) and not _only_keeps(around):
                yield statement, around if isinstance(around, ast.Subscript) and around.value is node else node
        if any(isinstance(node.ctx, ast.Store) for node in names):
            return


def _only_keeps(around: ast.AST) -> bool:
    """Whether what stands around an argument takes none of its values: `x.shape`, `ctx.save_for_backward(x)`."""
    if isinstance(around, ast.Attribute):
        return around.attr in ("shape", "size", "dtype", "device", "ndim", "dim", "numel")
    if isinstance(around, ast.Call):
        return callee(around)[1] in ("save_for_backward", "len")
    return isinstance(around, ast.Assign) and (dotted(around.targets[0]) or "").startswith("ctx.")


class _Span(NamedTuple):
    start: int
    end: int
    removed: bool


def _spans(index: ast.expr, got: Sequence[int], due: Sequence[int]) -> list[_Span | None] | None:
    """Which entries an index takes of each dimension, None for a dimension where that is not known; None if it takes
    another number of entries than a gradient has."""
    every = list(index.elts) if isinstance(index, ast.Tuple) else [index]
    dots = [k for k, each in enumerate(every) if isinstance(each, ast.Constant) and each.value is Ellipsis]
    at = dots[0] if dots else len(every)
    full = [ast.Slice()] * (len(due) - len(every) + len(dots))
    every[at : at + len(dots)] = full
    if len(every) != len(due) or len(dots) > 1:
        return None
    if not all(isinstance(each, ast.Slice) or type(_number(each)) is int for each in every):
        rest = list(due[1:])  # a tensor of indices
        first_only = not isinstance(every[0], ast.Slice) and all(_is_full(each) for each in every[1:])
        return [None] if first_only and list(got[len(got) - len(rest) :]) == rest and len(got) > len(rest) else None
    spans: list[_Span | None] = []
    sizes = iter(got)
    for each, size in zip(every, due, strict=True):
        length = next(sizes, None) if isinstance(each, ast.Slice) else 1
        if length is None or length > size:
            return None
        spans.append(_span(each, length, size))
        if isinstance(span := spans[-1], _Span) and span.end - span.start != length:
            return None
    return spans if next(sizes, None) is None else None


def _span(index: ast.expr, length: int, size: int) -> _Span | None:
    if not isinstance(index, ast.Slice):
        start = _number(index)
        return _Span(start % size, start % size + 1, True) if isinstance(start, int) else None
    lower, upper, step = (_number(each) for each in (index.lower, index.upper, index.step))
    if step not in (None, 1):
        return None
    if "unknown" not in (lower, upper):
        start, end, _ = slice(lower, upper).indices(size)
        return _Span(start, end, False)
    if lower is None:
        return _Span(0, length, False)
    return _Span(size - length, size, False) if upper is None else None


def _number(node: ast.expr | None) -> int | str | None:
    """The number that an expression is, None without one, else "unknown"."""
    try:
        value = ast.literal_eval(node) if node is not None else None
    except (ValueError, TypeError):
        return "unknown"
    return value if type(value) is int else None if node is None else "unknown"


def _is_full(index: ast.expr) -> bool:
    return isinstance(index, ast.Slice) and index.lower is index.upper is index.step is None
