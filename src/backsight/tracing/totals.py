"""Sums over all samples that are added to what each sample has of its own, and averaged with it."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import FrameType
from typing import Any

import torch

from backsight.tape import is_mended, made_by
from backsight.tracing.axis_numbers import AxisNumbers
from backsight.tracing.kept_axes import PLAIN
from backsight.tracing.program import innermost
from backsight.tracing.sites import Sites

_ADDS = frozenset({"add", "radd", "iadd", "sub", "rsub", "isub", "subtract"})
CARES = _ADDS | {"sum", "neg", "mean"}

_MOST = 256


@dataclass(frozen=True)
class Total:
    """A sum, made at `summed`, that is added at `site` to each of `rows` entries along an axis that it has summed over;
    the mean over them is taken. `dims` are the other dimensions of what it sums, `position` its place among the
    operands."""

    site: int
    summed: int
    dims: tuple[int, ...]
    rows: int
    position: int


@dataclass(frozen=True, slots=True)
class _Sum:
    """A sum over all entries: the axes of what it sums, that, and where."""

    axes: tuple[int, ...]
    of: weakref.ref[torch.Tensor]
    site: int


class Totals:
    """Which numbers are sums over axes, and which rows have got one of them added."""

    def __init__(self, numbers: AxisNumbers, sites: Sites) -> None:
        self._numbers, self._sites = numbers, sites
        self._sums: dict[int, tuple[weakref.ref[torch.Tensor], _Sum]] = {}
        self._added: dict[int, tuple[weakref.ref[torch.Tensor], Total]] = {}
        self._found: dict[int, tuple[Total, int, tuple[int, ...]]] = {}
        self._axes: dict[int, tuple[int, tuple[int, ...]]] = {}

    def note(self, name: str, args: Sequence[Any], kwargs: Any, result: Any, frame: FrameType) -> None:
        """Note a call of one of the functions that this cares for."""
        one: Any = args[0] if args else None
        if type(result) is not torch.Tensor or not result.requires_grad or len(self._sums) >= _MOST:
            return
        if name == "sum":
            if (
                type(one) in PLAIN
                and len(args) == 1
                and not kwargs
                and one.dim()
                and not result.dim()
                and not _is_leaf(one)
            ):
                user, axes = innermost(frame), self._numbers.of(one)
                if any(axes) and user is not None:
                    summed = _Sum(axes, weakref.ref(one), self._sites.of_call(user, name, frame))
                    self._sums[id(result)] = weakref.ref(result), summed
        elif name == "neg":
            if (held := _held(self._sums, one)) is not None:
                self._sums[id(result)] = weakref.ref(result), held
            elif (total := _held(self._added, one)) is not None:
                self._added[id(result)] = weakref.ref(result), total
        elif name == "mean":
            if (total := _held(self._added, one)) is not None and not result.dim():
                self._found.setdefault(total.site, (total, *self._axes[total.site]))
        elif self._sums and len(args) == 2 and not kwargs and result.dim() == 1 and len(result) > 1:
            self._add(name, args, result, frame)

    def _add(self, name: str, args: Sequence[Any], result: torch.Tensor, frame: FrameType) -> None:
        for at in (0, 1):
            summed, rows = _held(self._sums, args[at]), args[1 - at]
            user = innermost(frame)
            if summed is None or type(rows) not in PLAIN or rows.dim() != 1 or not rows.requires_grad or user is None:
                continue
            axis = self._numbers.of(rows)[0]
            if not axis or summed.of() is rows or _is_leaf(rows):
                continue
            site = self._sites.of_call(user, name, frame)
            self._axes[site] = axis, summed.axes
            self._added[id(result)] = weakref.ref(result), Total(site, summed.site, (), len(rows), at)

    def found(self) -> list[Total]:
        """Return the sums that are added to each of the entries that they sum over, and averaged with them."""
        root, told = self._numbers.root, []
        for each, axis, axes in self._found.values():
            dims = tuple(at for at, other in enumerate(axes) if root(other) != root(axis))
            if len(dims) == len(axes) - 1:
                told.append(replace(each, dims=dims))
        return told


def _held(known: dict[int, Any], tensor: Any) -> Any:
    held = known.get(id(tensor))
    return held[1] if held is not None and held[0]() is tensor else None


def _is_leaf(tensor: torch.Tensor) -> bool:
    return made_by(tensor) is None and not is_mended(tensor)
