"""`stays_within`: whether a forward, at other values, goes where it went as it was called.

A clamp that only guards a root against rounding has no derivative that anybody derives, and an arc cosine of 30 is NaN.
At values where such a bound takes hold that took hold of nothing as called, a backward proves nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterator
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from backsight.verification.point import Point


def stays_within(there: Point, here: Point) -> bool:
    """Whether forward takes no side of a bound, a comparison or a choice that it did not take for any entry before.

    Nor may a step of it make the first NaN or infinity.
    """
    known, found = _sides(here), _sides(there)
    return all(sides <= known.get(place, set()) for place, sides in found.items())


def _sides(point: Point) -> dict[Hashable, set[str]]:
    mode = _Sides()
    with mode:
        point.moved_together({})
    return mode.taken


class _Sides(TorchFunctionMode):
    """Notes which sides the steps of a forward take, by their place in the source."""

    def __init__(self) -> None:
        super().__init__()
        self.taken: dict[Hashable, set[str]] = {}

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        name = getattr(func, "__name__", "").strip("_")
        sides = set(_of(name, args, kwargs, result))
        if sides:
            frame = sys._getframe(1)
            self.taken.setdefault((name, frame.f_code, frame.f_lasti), set()).update(sides)
        return result


def _of(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Iterator[str]:
    if not isinstance(result, torch.Tensor):
        return
    if result.is_floating_point() and not bool(torch.isfinite(result).all()):
        yield "not finite"
    if name in _COMPARING and result.dtype == torch.bool:
        yield from _both(result)
    elif name == "where" and len(args) == 3:
        yield from _both(args[0])
    elif name in ("maximum", "minimum", "fmax", "fmin") and len(args) == 2:
        yield from _beside(args[0], args[1])
    elif name in _BOUNDED:
        order = ("max",) if name == "clamp_max" else ("min", "max")
        given = dict(zip(order, args[1:], strict=False)) | {_NAMES.get(key, key): each for key, each in kwargs.items()}
        for side, default in zip(("min", "max"), _BOUNDED[name], strict=True):
            bound = given.get(side, default)
            if bound is not None and not isinstance(bound, bool):
                yield from (f"{side} {each}" for each in _beside(args[0], bound))


def _both(mask: torch.Tensor) -> Iterator[str]:
    if bool(mask.any()):
        yield "true"
    if not bool(mask.all()):
        yield "false"


def _beside(x: torch.Tensor, bound: Any) -> Iterator[str]:
    if bool((x < bound).any()):
        yield "below"
    if bool((x >= bound).any()):
        yield "above"


_COMPARING = frozenset({"gt", "lt", "ge", "le", "greater", "less", "greater_equal", "less_equal"})
_NAMES = {"min_val": "min", "max_val": "max"}
_BOUNDED: dict[str, tuple[float | None, float | None]] = {
    "clamp": (None, None),
    "clip": (None, None),
    "clamp_min": (None, None),
    "clamp_max": (None, None),
    "relu": (0.0, None),
    "relu6": (0.0, 6.0),
    "hardtanh": (-1.0, 1.0),
    "hardsigmoid": (-3.0, 3.0),
    "hardswish": (-3.0, 3.0),
    "threshold": (None, None),
}
"""Functions that bound what they are given, each with the bounds that it has of itself."""
