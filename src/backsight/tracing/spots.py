"""Calls of tensor methods that are looked at closer, for what the text alone cannot tell: what they were called on.

A statement that is nothing but a call whose result is a new tensor, and the calls that only change sizes. A file is
read once; at a line that has neither, nothing is done.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any, ClassVar, TypeAlias

import torch

from backsight.source import Body
from backsight.source.body import callee, calls_in, functions, statements
from backsight.tape.saved import is_readable
from backsight.tracing.program import is_programs

_PLAIN = (torch.Tensor, torch.nn.Parameter)
_MOST = 64
_MOST_SHAPES = 4
_MOST_WRITES = 8
_LARGEST_INDEX = 1 << 17

VIEWS = frozenset({"view", "reshape"})
_MOVES = frozenset({"to", "cuda", "cpu", "float", "double", "half", "bfloat16"})
_OPERATORS: dict[str, type[ast.operator]] = {
    "add": ast.Add,
    "sub": ast.Sub,
    "mul": ast.Mult,
    "div": ast.Div,
    "pow": ast.Pow,
}
"""Methods that an operator may call as well."""


@dataclass(frozen=True, eq=False)
class Spot:
    """A call in the text; `dropped` tells whether it is all that its statement does."""

    body: Body
    statement: ast.stmt
    call: ast.Call
    method: str
    dropped: bool


@dataclass(eq=False)
class Sighting:
    """What a call was given: whether gradients were wanted and enabled; of a view also the sizes before and after."""

    spot: Spot
    requires_grad: bool
    enabled: bool
    shapes: list[tuple[tuple[int, ...], tuple[int, ...]]]


@dataclass(eq=False)
class Write:
    """`target += added`, where the target is an item: how many entries its index had, and how many distinct ones, once
    that was seen to be fewer. `is_by_rows`: what was added had a row for each."""

    body: Body
    statement: ast.stmt
    target: ast.Subscript
    added: ast.expr
    subtracts: bool
    entries: int = 0
    distinct: int = 0
    is_by_rows: bool = False
    looks: int = 0
    method: ClassVar[str] = "__setitem__"


@dataclass(eq=False)
class Copy:
    """`target.copy_(source)`: how often it was given the target's own memory, and how often another one's."""

    body: Body
    statement: ast.stmt
    call: ast.Call
    own: int = 0
    others: int = 0
    method: ClassVar[str] = "copy_"


Closer: TypeAlias = Spot | Write | Copy


class Spots:
    """The spots of each file by their lines, and what was seen at them."""

    def __init__(self) -> None:
        self.lines: dict[str, dict[int, Closer]] = {}
        self.seen: dict[Spot, Sighting] = {}
        self.lost: list[Write] = []
        self.copies: list[Copy] = []

    def _read(self, frame: FrameType) -> Mapping[int, Closer]:
        """Return the spots of the file of a frame."""
        file = frame.f_code.co_filename
        found: dict[int, Closer] = {}
        for copy in _copies(file) if is_programs(frame) else ():
            found |= dict.fromkeys(range(copy.statement.lineno, (copy.statement.end_lineno or 0) + 1), copy)
        for spot in _spots(file) if is_programs(frame) else ():
            many = any(True for _ in calls_in(spot.statement)) and hasattr(spot.statement, "body")
            last = spot.statement.lineno if many else spot.statement.end_lineno or 0
            found |= dict.fromkeys(range(spot.statement.lineno, last + 1), spot)
        for write in _writes(file) if is_programs(frame) else ():
            found |= dict.fromkeys(range(write.statement.lineno, (write.statement.end_lineno or 0) + 1), write)
        self.lines[file] = found
        return found

    def note(self, function: Any, args: Sequence[Any], kwargs: Mapping[str, Any], frame: FrameType) -> None:
        """Note a call that is about to be made, if it is one of the spots of its file.

        Tensors of other classes are left out: to read them may run their own code.
        """
        lines = self.lines.get(frame.f_code.co_filename)
        spot = (self._read(frame) if lines is None else lines).get(frame.f_lineno)
        tensor: Any = args[0] if args else None
        if isinstance(spot, Write):
            if getattr(function, "__name__", "") == "__setitem__" and type(tensor) in _PLAIN and len(args) == 3:
                self._write(spot, tensor, args[1])
            return
        if isinstance(spot, Copy):
            if getattr(function, "__name__", "") == "copy_" and len(args) > 1 and {type(args[1])} <= {*_PLAIN}:
                self._copy(spot, tensor, args[1])
            return
        if spot is None or type(tensor) not in _PLAIN or getattr(function, "__name__", "") != spot.method:
            return
        known = self.seen.get(spot)
        if spot.dropped:
            if known is None and len(self.seen) < _MOST and _does_something(spot.method, tensor, args, kwargs):
                enabled = torch.is_grad_enabled()
                self.seen[spot] = Sighting(spot, bool(tensor.requires_grad), enabled, [])
            return
        if known is not None and len(known.shapes) >= _MOST_SHAPES:
            return
        before = tuple(tensor.shape)
        after = _after(before, args[1:] or tuple(kwargs.values()))
        if after is None or before == after or (known is None and len(self.seen) >= _MOST):
            return
        if known is None:
            known = self.seen[spot] = Sighting(spot, bool(tensor.requires_grad), True, [])
        if (before, after) not in known.shapes:
            known.shapes.append((before, after))

    def _copy(self, spot: Copy, target: torch.Tensor, source: torch.Tensor) -> None:
        """Look whether a tensor is copied onto itself."""
        if not is_readable(target) or not is_readable(source) or not target.numel():
            return
        if spot.own + spot.others == 0:
            self.copies.append(spot)
        same = target.data_ptr() == source.data_ptr() and target.shape == source.shape
        spot.own, spot.others = spot.own + same, spot.others + (not same)

    def _write(self, spot: Write, tensor: torch.Tensor, index: Any) -> None:
        """Look at the first indices of a write, for as long as none has repeated entries."""
        parts = list(index) if isinstance(index, tuple) else [index]
        given = [each for each in parts if type(each) in _PLAIN]
        if spot.looks >= _MOST_WRITES or spot.entries or not given:
            return
        spot.looks += 1
        first = given[0]
        if any(each.dtype != torch.int64 or each.device.type != "cpu" or each.shape != first.shape for each in given):
            return
        if not 1 < first.numel() <= _LARGEST_INDEX or not all(is_readable(each) for each in given):
            return
        with torch.no_grad():
            rows = torch.stack([each.detach().reshape(-1) for each in given], 1)
            distinct = len(set(map(tuple, rows.tolist())))
        if distinct < first.numel():
            spot.entries, spot.distinct = first.numel(), distinct
            spot.is_by_rows = len(parts) == 1 and first.dim() == 1 and tensor.dim() > 0
            self.lost.append(spot)


def _copies(file: str) -> Iterator[Copy]:
    for body in functions(file):
        for statement in statements(body.node):
            calls = [each for each in calls_in(statement) if callee(each)[1] == "copy_" and len(each.args) == 1]
            if isinstance(statement, ast.Expr) and len(calls) == 1:
                yield Copy(body, statement, calls[0])


def _writes(file: str) -> Iterator[Write]:
    for body in functions(file):
        for statement in statements(body.node):
            match statement:
                case ast.AugAssign(target=ast.Subscript() as target, op=ast.Add() | ast.Sub() as op, value=value):
                    pass
                case ast.Assign(
                    targets=[ast.Subscript() as target],
                    value=ast.BinOp(left=ast.Subscript() as own, op=ast.Add() | ast.Sub() as op, right=value),
                ) if ast.unparse(own) == ast.unparse(target):
                    pass
                case _:
                    continue
            if not isinstance(target.slice, ast.Constant | ast.Slice):
                yield Write(body, statement, target, value, isinstance(op, ast.Sub))


def _spots(file: str) -> Iterator[Spot]:
    for body in functions(file):
        for statement in statements(body.node):
            calls = list(calls_in(statement))
            views = [each for each in calls if callee(each)[1] in VIEWS]
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
                method = callee(statement.value)[1]
                function = statement.value.func
                held = isinstance(function, ast.Attribute) and not isinstance(function.value, ast.Call)
                if held and _is_unmistakable(method, statement, calls):
                    yield Spot(body, statement, statement.value, method, dropped=True)
                    continue
            if len(views) == 1 and isinstance(views[0].func, ast.Attribute):
                yield Spot(body, statement, views[0], callee(views[0])[1], dropped=False)


def _is_unmistakable(method: str, statement: ast.stmt, calls: Sequence[ast.Call]) -> bool:
    """Whether a tensor method of this name that is called here can only be the one whose result is dropped."""
    twin = hasattr(torch.Tensor, f"{method}_") and hasattr(torch.Tensor, method) and not method.startswith("resize")
    if not (twin or method in _MOVES) or sum(callee(each)[1] == method for each in calls) != 1:
        return False
    operator = _OPERATORS.get(method)
    return operator is None or not any(
        isinstance(node, ast.BinOp) and isinstance(node.op, operator) for node in ast.walk(statement)
    )


def _does_something(method: str, tensor: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether the result is another tensor: to what it is already, a tensor is not moved."""
    if method == "detach":
        return bool(tensor.requires_grad)
    kinds = {"float": torch.float32, "double": torch.float64, "half": torch.float16, "bfloat16": torch.bfloat16}
    if method in kinds:
        return bool(tensor.dtype != kinds[method])
    if method in ("cpu", "cuda"):
        return bool(tensor.device.type != method)
    if method == "to":
        for each in (*args[1:], *kwargs.values()):
            if type(each) is torch.dtype and each != tensor.dtype:
                return True
            if type(each) in (str, torch.device) and _type_of(each) not in ("", tensor.device.type):
                return True
        return False
    return "out" not in kwargs


def _type_of(device: str | torch.device) -> str:
    """Return the type of a device; empty if there is none of this name, which the call will say."""
    try:
        return torch.device(device).type
    except RuntimeError:
        return ""


def _after(before: tuple[int, ...], given: Sequence[Any]) -> tuple[int, ...] | None:
    """Return the sizes that a view is asked for."""
    sizes = given[0] if len(given) == 1 and isinstance(given[0], tuple | list) else given
    if not all(type(each) is int for each in sizes):
        return None
    asked, total = [int(each) for each in sizes], 1
    for each in before:
        total *= each
    known = 1
    for each in asked:
        known *= each if each != -1 else 1
    return tuple(each if each != -1 else total // max(known, 1) for each in asked)
