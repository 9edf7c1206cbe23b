"""Rows that were put in another order, and what a loss compares them with: targets that never were.

An order is what `sort`, `argsort` or `randperm` has returned, as long as nothing but an index is made of it: where it
leaves for Python, or goes into anything else, the program may have done with it what is not seen here. Rows that are
brought back into their order, or are mixed with what they were, are as they were.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any, NamedTuple

import torch

from backsight.tape import made_by
from backsight.tape.saved import is_readable
from backsight.tracing.axis_numbers import AxisNumbers
from backsight.tracing.kept_axes import PLAIN
from backsight.tracing.program import innermost
from backsight.tracing.sites import Sites

MAKES = frozenset({"sort", "argsort", "randperm"})
_TAKES = frozenset({"getitem", "index_select"})
_PACKS, _UNPACKS = "pack_padded_sequence", "pad_packed_sequence"
_RUNS = frozenset({"gru", "lstm", "rnn_tanh", "rnn_relu"})
CARES = MAKES | _TAKES | _RUNS | {_PACKS, _UNPACKS}
"""The functions that this is told of in any case."""

_LEAVES = frozenset({"tolist", "numpy", "array", "item", "iter", "unbind"})
"""By which values come to Python, by their plain names."""

_MOST = 128
_MOST_ROWS = 4096
_FEWEST = 4


class _Order(NamedTuple):
    """An order: the tensor, the axis of what was sorted, the order that it sorts, and where it was made."""

    tensor: weakref.ref[torch.Tensor]
    axis: int
    of: int
    site: int


class _Moved(NamedTuple):
    """An axis whose entries are those of another one in an order: by which order, the values of it, and where."""

    base: int
    order: int
    rows: tuple[int, ...]
    site: int


@dataclass(frozen=True)
class Disordered:
    """Rows that a loss compares at `site` with targets in another order: they got theirs at `taken`, by an order that
    was made at `made`."""

    site: int
    taken: int
    made: int
    rows: int


class Orders:
    """Which axes are those of others in another order."""

    def __init__(self, numbers: AxisNumbers, sites: Sites) -> None:
        self._numbers, self._sites = numbers, sites
        self._orders: dict[int, _Order] = {}
        self._moved: dict[int, _Moved] = {}
        self._sorted: list[int] = []
        self._packed: dict[int, tuple[weakref.ref[torch.Tensor], int]] = {}
        self._left: set[int] = set()
        """The orders of which it is not known what was made with them."""
        self._fine: set[int] = set()
        self._merged: set[int] = set()
        self._found: dict[int, tuple[Disordered, _Moved]] = {}

    @property
    def is_followed(self) -> bool:
        """Whether there is an order, so that all calls matter."""
        return bool(self._orders)

    def note(self, name: str, args: Sequence[Any], result: Any, frame: FrameType) -> bool:
        """Note a call; return whether the axes of its result are known with that."""
        if name in MAKES:
            return self._made(name, args, result, frame)
        if not self._orders:
            return False
        if name in _TAKES and self._taken(name, args, result, frame):
            return True
        self._used(name, args)
        if not self._moved:
            return False
        if name == _PACKS and type(result) is tuple and len(args) > 2:
            axes = self._numbers.of(args[0]) if type(args[0]) in PLAIN else ()
            axis = axes[0 if args[2] is True else 1] if len(axes) > 1 else 0
            if axis in self._moved:
                self._packed[id(result[0])] = weakref.ref(result[0]), axis
        elif name in _RUNS and args and (axis := self._of_packed(args[0])):
            self._packed[id(result[0])] = weakref.ref(result[0]), axis
            for each in result[1:]:
                if each.dim() == 3:
                    self._numbers.put(each, (0, axis, self._numbers.fresh()), each.shape)
            return True
        elif name == _UNPACKS and args and (axis := self._of_packed(args[0])):
            padded = result[0]
            first = (axis, 0) if len(args) > 2 and args[2] is True else (0, axis)
            self._numbers.put(padded, (*first, *(self._numbers.fresh() for _ in padded.shape[2:])), padded.shape)
            return True
        return False

    def _of_packed(self, data: Any) -> int:
        held = self._packed.get(id(data))
        return held[1] if held is not None and held[0]() is data else 0

    def _made(self, name: str, args: Sequence[Any], result: Any, frame: FrameType) -> bool:
        given = args[0] if args and type(args[0]) in PLAIN else None
        made = result[1] if name == "sort" and type(result) is not torch.Tensor else result
        user = innermost(frame)
        if type(made) is not torch.Tensor or made.dim() != 1 or user is None or len(self._orders) >= _MOST:
            self._used(name, args)
            return False
        of = self._order_of(given)
        axis = self._numbers.of(given)[0] if given is not None else 0
        site = self._sites.of_call(user, name, frame)
        self._orders[id(made)] = _Order(weakref.ref(made), axis, of, site)
        if name != "sort":
            return False
        values = self._numbers.fresh()
        self._sorted.append(values)
        self._numbers.put(result[0], (values,), result[0].shape)
        self._numbers.put(made, (self._numbers.fresh(),), made.shape)
        return True

    def _order_of(self, tensor: Any) -> int:
        """Return the key of an order that a tensor is; 0 if it is none."""
        held = self._orders.get(id(tensor))
        return id(tensor) if held is not None and held.tensor() is tensor else 0

    def _taken(self, name: str, args: Sequence[Any], result: Any, frame: FrameType) -> bool:
        """Give what an order was an index of an axis of its own; or its own one again, where it is brought back."""
        if len(args) != (2 if name == "getitem" else 3) or type(result) is not torch.Tensor:
            return False
        tensor, index = args[0], args[-1]
        key = self._order_of(index)
        if not key or type(tensor) not in PLAIN or (name == "index_select" and args[1] != 0) or not tensor.dim():
            return False
        rows, user = _rows(index), innermost(frame)
        if (
            len(rows) != tensor.shape[0]
            or user is None
            or self._order_of(tensor)
            or sorted(rows) != [*range(len(rows))]
        ):
            return False
        axes = self._numbers.of(tensor)
        if not axes[0]:
            axes = (self._numbers.fresh(), *axes[1:])
            self._numbers.put(tensor, axes, tensor.shape)
        before = self._moved.get(axes[0])
        if before is not None:
            rows = tuple(before.rows[at] for at in rows)
        base = before.base if before is not None else axes[0]
        order, root = self._orders[key], self._numbers.root
        if rows == tuple(range(len(rows))):
            self._numbers.put(result, (base, *axes[1:]), result.shape)
            return True
        if len(self._moved) >= _MOST or (tensor.requires_grad and root(order.axis) in (0, root(base))):
            return False
        moved = next((at for at, each in self._moved.items() if each.base == base and each.rows == rows), 0)
        if not moved:
            moved = self._numbers.fresh()
            site = self._sites.of_call(user, name, frame)
            self._moved[moved] = _Moved(base, key, rows, site)
        self._numbers.put(result, (moved, *axes[1:]), result.shape)
        return True

    def _used(self, name: str, args: Sequence[Any]) -> None:
        """Note that an order, or rows in it, went into something that is not followed."""
        for each in args[:4]:
            for inner in each if type(each) in (list, tuple) else (each,):
                if type(inner) is torch.Tensor and (key := self._order_of(inner)):
                    self._leave(key)
        leaves = name in _LEAVES or (name == "getitem" and len(args) > 1 and type(args[1]) is int)
        if leaves and args and type(args[0]) in PLAIN and args[0].dim():
            moved = self._moved.get(self._numbers.of(args[0])[0])
            if moved is not None and made_by(args[0]) is None:
                self._leave(moved.order)

    def _leave(self, key: int) -> None:
        while key and key not in self._left:
            self._left.add(key)
            held = self._orders.get(key)
            key = held.of if held is not None else 0

    def compare(self, scores: torch.Tensor, target: torch.Tensor, user: FrameType, frame: FrameType) -> None:
        """Note rows that are compared one by one, before the axes of both are taken for one."""
        root, of = self._numbers.root, self._numbers.of
        one, other = (root(of(each)[0]) for each in (scores, target))
        if not self._moved or not one or scores.shape[0] != target.shape[0]:
            return
        at, moved = next(((at, each) for at, each in self._moved.items() if root(at) == one), (0, None))
        site = self._sites.of_call(user, "compare", frame)
        if moved is None or one == other or root(moved.base) == one:
            return
        if any(root(each) == other for each in (*self._moved, *self._sorted) if each not in self._merged):
            self._fine.add(site)
            return
        order = self._orders[moved.order]
        if not other or not scores.requires_grad or target.requires_grad or (order.axis and root(order.axis) == other):
            return
        self._merged.add(at)  # the comparison takes both for one axis
        if site not in self._found and _changes(target, moved.rows):
            self._found[site] = Disordered(site, moved.site, order.site, len(moved.rows)), moved

    def found(self) -> list[Disordered]:
        """Return where a loss compared rows with targets in another order."""
        told = [(each, moved) for site, (each, moved) in self._found.items() if site not in self._fine]
        return [each for each, moved in told if moved.order not in self._left]


def _rows(order: torch.Tensor) -> tuple[int, ...]:
    if not is_readable(order) or order.dtype != torch.int64 or not _FEWEST <= len(order) <= _MOST_ROWS:
        return ()
    return tuple(order.detach().tolist())


def _changes(target: torch.Tensor, rows: tuple[int, ...]) -> bool:
    """Whether a target is another one in an order: one value throughout is not. Of a slice of the rows, it may be."""
    if not is_readable(target) or not 0 < target.numel() <= 16 * _MOST_ROWS:
        return False
    values = target.detach()
    return not torch.equal(values[list(rows)] if len(rows) == len(values) else values[:1].expand_as(values), values)
