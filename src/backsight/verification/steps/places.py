"""Where a step takes its entries from: beside, in another order, or with another number for a stride or a dimension."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from backsight.verification.steps.alterations import ELEMENTWISE, INDEXING
from backsight.verification.steps.pull import pulled
from backsight.verification.steps.step import Step

CHOOSING = INDEXING - {"expand", "expand_as", "broadcast_to", "repeat", "tile", "repeat_interleave"} | {
    "select",
    "narrow",
    "diagonal",
}
_WINDOWED = ("conv", "unfold", "pool")
_SIZES = frozenset({"reshape", "view", "expand", "repeat", "broadcast_to", "split", "chunk", "norm", "getitem", "var"})

Move = Callable[[torch.Tensor], torch.Tensor]
"""Makes other places along a dimension of those that entries are taken from."""


def in_reverse(step: Step, dims: tuple[int, ...]) -> torch.Tensor | None:
    """The gradient of the result arrives in reverse order along some dimensions."""
    y = step.result
    if step.name in ELEMENTWISE or any(y.shape[dim] < 2 for dim in dims):
        return None
    turned = y.flip(dims)
    return y.detach() + (turned - turned.detach())


def out_in_reverse(step: Step, number: int, dims: tuple[int, ...]) -> torch.Tensor | None:
    """The gradient of an operand comes out in reverse order along some dimensions: a flip that is not undone."""
    x = step.operand(number)
    if x is None or step.name in ELEMENTWISE or any(dim >= x.dim() or x.shape[dim] < 2 for dim in dims):
        return None
    turned = x.flip(dims)
    return step.with_operand(number, x.detach() + (turned - turned.detach()))


def repeated_otherwise(step: Step, number: int) -> torch.Tensor | None:
    """Each entry is repeated where all of them are in turn, or the other way round."""
    x = step.operand(0)
    if x is None or number >= x.dim():
        return None
    times = step.result.shape[number] // max(x.shape[number], 1)
    if step.result.dim() != x.dim() or times < 2:
        return None
    if step.name == "repeat_interleave":
        other = torch.cat([x] * times, number)
    elif step.name in ("repeat", "tile"):
        other = x.repeat_interleave(times, number)
    else:
        return None
    return step.with_derivative_of(other) if other.shape == step.result.shape else None


def integers(step: Step) -> Iterator[tuple[int | str, Any, Any]]:
    """Yield the position or keyword of each integer that a step is given, the integer, and another in its place."""
    if step.name in ELEMENTWISE or step.name in _SIZES:
        return
    for place, each in _given(step):
        several = isinstance(each, tuple | list) and bool(each)
        old = each[0] if several else each
        if type(old) is not int or (several and any(one != old for one in each)):
            continue
        for new in dict.fromkeys((1, old - 1, old + 1)):
            if new != old:
                yield place, each, type(each)([new] * len(each)) if several else new


def _given(step: Step) -> Iterator[tuple[int | str, Any]]:
    if step.name in ("tril", "triu", "diagonal") and len(step.args) == 1 and not step.kwargs:
        yield ("diagonal" if step.name != "diagonal" else "offset"), 0
    yield from enumerate(step.args[1:], 1)
    yield from step.kwargs.items()


def with_integer(step: Step, place: int | str, new: Any) -> torch.Tensor | None:
    """The derivative with another integer; of a larger result of windows the beginning."""
    args, kwargs = list(step.args), dict(step.kwargs)
    if isinstance(place, int):
        args[place] = new
    else:
        kwargs[place] = new
    other: torch.Tensor = step.function(*args, **kwargs)
    y = step.result
    if other.dim() != y.dim() or other.dtype != y.dtype:
        return None
    if step.name == "stack" and other.numel() == y.numel():
        other = other.reshape(y.shape)
    if other.shape != y.shape:
        if not any(each in step.name for each in _WINDOWED) or any(a < b for a, b in zip(other.shape, y.shape)):  # noqa: B905  # of one length
            return None
        for dim, size in enumerate(y.shape):
            other = other.narrow(dim, 0, size)
    return step.with_derivative_of(other)


def starts(runs: Sequence[Step]) -> list[list[int]]:
    """Where the runs of an indexing begin, along each dimension of its operand, in order."""
    begins = ([int(each.min()) for each in coordinates(step)] for step in runs)
    return [sorted(set(along)) for along in zip(*begins, strict=True)]


def taken(step: Step, moves: Mapping[int, Move]) -> torch.Tensor | None:
    """The entries that a step chooses are taken from other places along some dimensions; none from outside of them."""
    x = step.operand(0)
    if x is None or step.name not in CHOOSING or not step.result.numel():
        return None
    places = coordinates(step)
    for dim, move in moves.items():
        places[dim] = move(places[dim])
    inside = torch.ones_like(places[0], dtype=torch.bool)
    flat = torch.zeros_like(places[0])
    for size, each in zip(x.shape, places, strict=True):
        inside &= (each >= 0) & (each < size)
        flat = flat * size + each
    at = flat[inside]

    def pull(u: torch.Tensor) -> torch.Tensor:
        return torch.zeros_like(x).reshape(-1).index_add(0, at, u[inside]).reshape(x.shape)

    return pulled(step.result.detach(), x, pull)


def coordinates(step: Step) -> list[torch.Tensor]:
    """The place in the operand, along each of its dimensions, that each entry of the result is taken from."""
    x = step.args[0]
    places = torch.arange(x.numel(), device=x.device).reshape(x.shape)
    chosen = step.function(places, *step.args[1:], **step.kwargs)
    return list(torch.unravel_index(chosen, x.shape))
