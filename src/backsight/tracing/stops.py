"""Where gradients stop: a node that gets something else than zeros, and passes on exact zeros. Looked for on demand."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch

from backsight.tape import (
    forward_class,
    is_captured,
    made_by,
    no_torch_dispatch,
    no_torch_function,
    sequence_number,
    unnumbered,
)
from backsight.tape.ops import op_name
from backsight.tape.rows import dtype_name
from backsight.tape.saved import is_readable
from backsight.tape.walk import TooManyNodes, Walk, walk
from backsight.tracing.births import opened
from backsight.tracing.facts import Stop

_MOST_NODES = 20_000
_MOST = 32
"""Stops that are told of one backward."""

_BOUNDS = ("min", "max", "min_val", "max_val", "threshold", "p")
_PASSES_ALL = frozenset({"Sum", "Mean", "Add", "Sub", "Mul", "Div", "Neg"}) | {
    *("View", "UnsafeView", "ReshapeAlias", "Squeeze", "Unsqueeze", "Expand", "Transpose", "Permute", "T"),
    *("Select", "Slice", "Index", "Stack", "Cat", "Clone", "ToCopy"),
}
"""Operations by which a loss is put together of its parts."""


class Stops:
    """Looks at every gradient of one backward, once it is `wanted`."""

    def __init__(self, fail: Callable[[BaseException], None]) -> None:
        self._fail = fail
        self.wanted = False
        self.found: tuple[Stop, ...] = ()

    def before_backward(self, roots: Any) -> Callable[[], None] | None:
        """Look at the gradients of a backward that begins; return what ends that."""
        starts = [made_by(r) for r in (roots if isinstance(roots, list | tuple) else (roots,)) if _is_result(r)]
        if not starts or is_captured():
            return None
        self.wanted = False
        try:
            walked = walk(starts, _MOST_NODES)
        except TooManyNodes:
            return None
        seen: dict[int, Any] = {}
        with unnumbered():
            handles = [
                node.register_hook(self._hook(node, index, seen))
                for index, node in enumerate(walked.nodes)
                if node.next_functions and forward_class(type(node)) is None
            ]

        def end() -> None:
            for handle in handles:
                handle.remove()
            self.found = tuple(_told(walked, starts, seen))

        return end

    def _hook(self, node: Any, index: int, seen: dict[int, Any]) -> Callable[[Any, Any], None]:
        def look(passed: Any, given: Any) -> None:
            try:
                with no_torch_function(), no_torch_dispatch():
                    zeros = [at for at, each in enumerate(passed) if each is not None and _is_zero(each)]
                    if zeros and any(each is not None and _is_zero(each) is False for each in given):
                        kept = dict(opened(node))
                        dtype = dtype_name(passed[zeros[0]].dtype)
                        numbers, by_number = dict(_numbers(node)), any(not t.dim() for t in kept.values())
                        empty = tuple(name for name, each in kept.items() if _is_zero(each))
                        seen[index] = zeros, numbers, _range(kept), by_number, dtype, *_along(node, kept), empty
            except BaseException as failure:
                self._fail(failure)

        return look


def _is_result(value: Any) -> bool:
    return issubclass(type(value), torch.Tensor) and made_by(value) is not None


def _is_zero(tensor: torch.Tensor) -> bool | None:
    return not bool((tensor.detach() != 0).any()) if is_readable(tensor) and tensor.layout == torch.strided else None


def _numbers(node: Any) -> Iterator[tuple[str, float]]:
    """Yield the bounds of an operation, which it keeps as numbers."""
    for name in _BOUNDS:
        value: Any = getattr(node, f"_saved_{name}", None)
        if type(value) in (int, float):
            yield name.removesuffix("_val"), float(value)


def _along(node: Any, kept: dict[str, torch.Tensor]) -> tuple[tuple[int, ...], int]:
    """Return the shape of what an operation returned, and the dimension along which it normalized."""
    dim, result = getattr(node, "_saved_dim", None), kept.get("result")
    if type(dim) is not int or result is None or not result.dim():
        return (), -1
    return tuple(result.shape), (dim - (1 << 64) if dim >= 1 << 63 else dim) % result.dim()


def _range(kept: dict[str, torch.Tensor]) -> tuple[float, float] | None:
    """Return between what the values lie that an operation was given, or else what it returned."""
    values = kept.get("self", kept.get("result"))
    if values is None or not values.numel() or values.is_complex():
        return None
    low, high = torch.aminmax(values.detach().float())
    return float(low), float(high)


def _told(walked: Walk, starts: list[Any], seen: dict[int, Any]) -> Iterator[Stop]:
    """Tell the stops in backward order, with the leaves that the gradient would have gone on to."""
    start, inputs = walked.start.tolist(), walked.inputs.tolist()
    parts = _parts(walked, starts, start, inputs)
    for index in sorted(seen)[:_MOST]:
        zeros, *told = seen[index]
        begin = start[index]
        edges = [(at, inputs[begin + at]) for at in zeros if begin + at < start[index + 1]]
        for at, producer in edges:
            if producer >= 0:
                leaves = tuple(weakref.ref(each) for each in _leaves(walked, start, inputs, producer))
                op = op_name(walked.nodes[index].name())
                number = int(sequence_number(walked.nodes[index]))
                yield Stop(op, number, at, leaves, index in parts, *told)


def _leaves(walked: Walk, start: list[int], inputs: list[int], producer: int) -> Iterator[torch.Tensor]:
    queue, known = [producer], {producer}
    for index in queue:  # grows as we go
        variable = getattr(walked.nodes[index], "variable", None)
        if isinstance(variable, torch.Tensor):
            yield variable
        new = [j for j in inputs[start[index] : start[index + 1]] if j >= 0 and j not in known]
        known.update(new)
        queue += new


def _parts(walked: Walk, starts: list[Any], start: list[int], inputs: list[int]) -> set[int]:
    """Return the nodes that are terms of the loss: what a margin has cut there, it has cut because it is satisfied."""
    queue = [index for index, node in enumerate(walked.nodes) if any(node is each for each in starts)]
    known = set(queue)
    for index in queue:  # grows as we go
        if op_name(walked.nodes[index].name()) in _PASSES_ALL:
            new = [j for j in inputs[start[index] : start[index + 1]] if j >= 0 and j not in known]
            known.update(new)
            queue += new
    return known
