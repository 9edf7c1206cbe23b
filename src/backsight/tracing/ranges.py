"""The smallest and largest number of the indices that are moved to a device, and what they are too large for.

A kernel stops at an index that is out of range, and after that nothing of the device can be read any more. Before they
are moved the numbers are at hand: they are looked at there, and compared where they are used, which waits for nothing.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any, NamedTuple

import torch

from backsight.tape import Living, is_jit_traced
from backsight.tape.saved import is_readable
from backsight.tracing.program import innermost
from backsight.tracing.sites import Sites

_LARGEST = 1 << 20
_LARGEST_LIST = 1 << 16
_MOST = 64
_PLAIN = (torch.Tensor, torch.nn.Parameter)
_WHOLE = frozenset({torch.int64, torch.int32, torch.int16, torch.uint8, torch.int8})
_MOVES = frozenset({"to", "cuda", "tensor", "as_tensor", "asarray", "copy_"})
_KEEPS = frozenset(
    {"view", "reshape", "flatten", "squeeze", "unsqueeze", "transpose", "permute", "contiguous", "clone", "detach"}
    | {"long", "int", "t", "movedim"}
)
_PARTS = frozenset({"__getitem__", "select", "narrow", "chunk", "split", "unbind"})
USES = frozenset(
    {"embedding", "embedding_bag", "cross_entropy", "nll_loss", "one_hot", "gather", "index_select", "__getitem__"}
)
CARES = _MOVES | _KEEPS | _PARTS | USES


class Range(NamedTuple):
    """What a tensor holds that was moved at a site; `whole` tells that it is all of what was moved."""

    low: int
    high: int
    site: int
    whole: bool = True


@dataclass(frozen=True)
class Outside:
    """Indices that `op` does not take: it takes numbers from `first` to `size` - 1. `weight` is an embedding's."""

    op: str
    site: int
    position: int | str
    given: Range
    size: int
    first: int = 0
    weight: weakref.ref[torch.Tensor] | None = None


class _Use(NamedTuple):
    position: int | str
    index: Any
    size: int
    first: int = 0
    ignored: int | None = None
    weight: Any = None


class Ranges:
    """What was moved, and the uses of it that are out of range."""

    def __init__(self, sites: Sites) -> None:
        self._sites = sites
        self.moved: Living[Range] = Living()
        self.outside: dict[int, Outside] = {}

    def note(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any, frame: FrameType) -> None:
        """Note a call of one of the functions that this cares for."""
        if name in _MOVES:
            self._move(name, args, kwargs, result, frame)
        if not self.moved:
            return
        known = self.moved.of(args[0]) if args else None
        if known is not None and (name in _KEEPS or name in _PARTS):
            for each in result if type(result) in (tuple, list) else (result,):
                if type(each) is torch.Tensor and each.dtype in _WHOLE:
                    self.moved.put(id(each), each, known._replace(whole=known.whole and name in _KEEPS))
        if name in USES:
            self._use(name, args, kwargs, frame)

    def _move(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any, frame: FrameType) -> None:
        source = args[1] if name == "copy_" and len(args) > 1 else args[0] if args else kwargs.get("data")
        if type(result) is not torch.Tensor or result.dtype not in _WHOLE or result.device.type == "cpu":
            return
        known, user = self.moved.of(source), innermost(frame)
        if known is None and user is not None and not is_jit_traced() and (found := _bounds(source)) is not None:
            known = Range(*found, self._sites.of_call(user, name, frame))
        if known is not None:
            self.moved.put(id(result), result, known)

    def _use(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any], frame: FrameType) -> None:
        use, user = next(_uses(name, args, kwargs), None), innermost(frame)
        held = self.moved.of(use.index) if use is not None else None
        if use is None or held is None or user is None or len(self.outside) >= _MOST:
            return
        over = held.high >= use.size and held.high != use.ignored
        under = held.low < use.first and held.low != use.ignored
        if over or under:
            site = self._sites.of_call(user, name, frame)
            weight = weakref.ref(use.weight) if type(use.weight) in _PLAIN else None
            found = Outside(name, site, use.position, held, use.size, use.first, weight)
            before = self.outside.get(site)
            if before is None or (held.whole and not before.given.whole):
                self.outside[site] = found

    def told(self) -> list[Outside]:
        """Return what was out of range, first what is known of the very tensor that was moved."""
        return sorted(self.outside.values(), key=lambda each: not each.given.whole)


def _uses(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[_Use]:
    """Yield which argument of a call is an index, and of what size that is which it looks up."""

    def given(at: int, *names: str) -> tuple[int | str, Any]:
        if len(args) > at:
            return at, args[at]
        return next(((each, kwargs[each]) for each in names if each in kwargs), (at, None))

    first: Any = args[0] if args else kwargs.get("input")
    if name in ("embedding", "embedding_bag"):
        (at, index), (_, weight) = given(0, "input"), given(1, "weight")
        if type(weight) in _PLAIN and weight.dim() == 2:
            yield _Use(at, index, weight.shape[0], weight=weight)
    elif name == "one_hot":
        (at, index), (_, classes) = given(0, "tensor", "input"), given(1, "num_classes")
        if type(classes) is int and classes > 0:
            yield _Use(at, index, classes)
    elif type(first) not in _PLAIN or not first.dim():
        return
    elif name in ("cross_entropy", "nll_loss"):
        (at, index), (_, ignored) = given(1, "target"), given(4, "ignore_index")
        yield _Use(at, index, first.shape[min(1, first.dim() - 1)], ignored=-100 if ignored is None else ignored)
    elif name in ("gather", "index_select"):
        (_, dim), (at, index) = given(1, "dim"), given(2, "index")
        if type(dim) is int and -first.dim() <= dim < first.dim():
            yield _Use(at, index, first.shape[dim])
    elif len(args) == 2:
        yield _Use(1, args[1], first.shape[0], first=-first.shape[0])


def _bounds(source: Any) -> tuple[int, int] | None:
    """Return the smallest and largest of some whole numbers that no device holds; None where there are too many."""
    if type(source) in _PLAIN:
        if source.device.type != "cpu" or not is_readable(source) or source.dtype not in _WHOLE:
            return None
        if not 0 < source.numel() <= _LARGEST:
            return None
        low, high = source.detach().aminmax()
        return int(low), int(high)
    if type(source).__name__ == "ndarray" and type(source).__module__ == "numpy":
        can = source.dtype.kind in "iu" and 0 < source.size <= _LARGEST
        return (int(source.min()), int(source.max())) if can else None
    if type(source) in (list, tuple):
        rows = source if source and type(source[0]) in (list, tuple) else [source]
        numbers = [n for row in rows[:_LARGEST_LIST] if type(row) in (list, tuple) for n in row[:_LARGEST_LIST]]
        return (min(numbers), max(numbers)) if numbers and all(type(n) is int for n in numbers) else None
    return None
