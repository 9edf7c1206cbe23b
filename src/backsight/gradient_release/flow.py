"""Follows, through one step of an optimizer, which parameters flow into which tensor, operation by operation.

A label is a set of parameters. It is set on each parameter, its gradient and its state; every operation hands on the
labels of what it reads to what it writes, element by element where it is pointwise, entry by entry where it takes lists
(`_foreach_add_`, `_fused_adamw_`). What is true of the labels is true for all values, not only for those of this step.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from backsight.gradient_release._torch import written
from backsight.gradient_release.labels import Labels, Mask, bit, mixed, together, union
from backsight.gradient_release.origin import Line, line_of
from backsight.gradient_release.reads import Operations, tensors_in

_OVERWRITING = frozenset({"copy_", "zero_", "fill_", "_foreach_copy_", "_foreach_zero_"})
_POINTWISE = frozenset({"_to_copy", "copy_", "masked_fill_", "lift_fresh", "contiguous"})
_OF_SHAPES_ONLY = (
    "_like",
    "new_zeros",
    "new_ones",
    "new_empty",
    "new_full",
    "new_empty_strided",
    "zero_",
    "_foreach_zero_",
)
_OVER_ALL = ("norm", "max", "min")
"""What ends the names of the `_foreach_` operations that are not pointwise, if they take a single list."""


class Read(NamedTuple):
    """A value that Python has read: of which parameters, by which operation, at which line."""

    labels: int
    operation: str
    line: Line


class Write(NamedTuple):
    """Values of other parameters that were written to one, or into what is its own.

    line: where that was; source: where values of several parameters came together before.
    """

    line: Line
    source: Line


class Flow(Operations):  # type: ignore[no-untyped-call]  # PyTorch's modes are untyped
    """What flowed in one step.

    ```python
    with Flow(labels, parameters, own) as flow:
        take_step(optimizer)
    flow.foreign(own_after)
    ```

    Args:
        labels: those of memory, which may be kept from step to step.
        own: for each parameter the tensors that are its own: itself, its gradient, its state.

    Attributes:
        reads: the values that Python read, in their order.
        drawn: where random numbers were drawn whose place in a sequence matters.
        written_first: the first value of another parameter that was written into what is one's own.
        changed: where what is each parameter's own was first written to.
    """

    def __init__(self, labels: Labels, own: Sequence[Sequence[torch.Tensor]]):
        super().__init__()
        self.reads: list[Read] = []
        self.drawn: Line | None = None
        self.written_first: Write | None = None
        self.changed: dict[int, Line] = {}
        self._labels = labels
        self._owner: dict[int, int] = {}
        self._sources: dict[int, Line] = {}
        self._touched: set[int] = set()
        self._generators = _generators()
        for number, tensors in enumerate(own):
            for each in tensors:
                labels.put(each, labels.of(each) | np.uint64(bit(number)))
                self._owner[_storage(each)] = number

    def on_read(self, operation: str, tensors: list[torch.Tensor], value: Any) -> Any:
        """Note a read."""
        whole = 0
        for each in tensors:
            whole |= self._labels.union(each)
        self.reads.append(Read(whole, operation, line_of("take_step")))
        return value

    def on_operation(self, func: Any, args: Any, kwargs: Any, call: Callable[[], Any]) -> Any:
        """Hand the labels on."""
        name = func.overloadpacket.__name__
        if torch.Tag.nondeterministic_seeded in func.tags and self.drawn is None and not _fresh(kwargs):
            self.drawn = line_of("take_step")
        targets = list(written(func, args, kwargs))
        out = {id(each) for each in tensors_in(targets)} if name in _OVERWRITING else _only_out(targets, args)
        pieces = [*args, *kwargs.values()]
        before = {id(each): self._labels.of(each).copy() for each in tensors_in(pieces)}
        memory = {_storage(each) for each in tensors_in(pieces)}
        result = call()
        fresh = [each for each in tensors_in([result]) if _storage(each) not in memory]
        if targets or fresh:
            pointwise = torch.Tag.pointwise in func.tags or name in _POINTWISE or name.startswith("_foreach")
            for target, sources in self._pairs(name, targets, result if fresh else None, pieces, out):
                masks = [] if name.endswith(_OF_SHAPES_ONLY) else [before[id(each)] for each in sources]
                self._hand_on(name, target, masks, pointwise, sources)
        return result

    def foreign(self, own: Sequence[Sequence[torch.Tensor]]) -> Write | None:
        """Return the first value of another parameter that is in a parameter, or its state, after the step."""
        if self.written_first is not None:
            return self.written_first
        for number, tensors in enumerate(own):
            for each in tensors:
                if self._labels.union(each) & ~bit(number):
                    line = self._sources.get(_storage(each), Line("?", 0))
                    return Write(line, line)
        return None

    def unseen(self, parameter: torch.Tensor) -> bool:
        """Whether no operation wrote to a parameter."""
        return _storage(parameter) not in self._touched

    def drew(self) -> bool:
        """Whether a generator of random numbers that everything shares has moved."""
        return _generators() != self._generators

    def _pairs(
        self, name: str, targets: list[Any], result: Any, pieces: list[Any], out: set[int]
    ) -> Iterator[tuple[torch.Tensor, list[torch.Tensor]]]:
        """Yield each tensor that is written, and those that it may come from."""
        whole = [each for each in tensors_in(pieces) if id(each) not in out]
        entrywise = name.startswith(("_foreach", "_fused", "_amp_foreach"))
        for target in [*targets, *([] if result is None else [result])]:
            if isinstance(target, torch.Tensor):
                yield target, whole
                continue
            for at, each in enumerate(target if isinstance(target, (list, tuple)) else ()):
                if isinstance(each, torch.Tensor):
                    yield each, _entry(pieces, at, len(target), out) if entrywise else whole

    def _hand_on(
        self, name: str, target: torch.Tensor, masks: list[Mask], pointwise: bool, sources: list[torch.Tensor]
    ) -> None:
        if name in ("cat", "stack") and len(masks) == len(sources):
            mask = _joined(name, target, masks)
        elif pointwise and not (name.endswith(_OVER_ALL) and len(masks) == 1):
            mask = together(masks, tuple(target.shape))
        else:
            mask = mixed(masks)
        key = _storage(target)
        self._touched.add(key)
        several = [_storage(each) for each, one in zip(sources, masks, strict=False) if _are_several(union(one))]
        self._labels.put(target, mask)
        now = union(mask)
        owner = self._owner.get(key)
        if owner is not None and owner not in self.changed:
            self.changed[owner] = line_of("take_step")
        foreign = owner is not None and bool(now & ~bit(owner))
        if _are_several(now) or foreign:
            line = line_of("take_step")
            source = self._sources.get(several[0], line) if several else line
            self._sources[key] = source
            if foreign and self.written_first is None:
                self.written_first = Write(line, source)


def _are_several(labels: int) -> bool:
    return bool(labels & (labels - 1))


def _entry(pieces: list[Any], at: int, length: int, out: set[int]) -> list[torch.Tensor]:
    """Return what entry `at` of a list may come from: the same entry of other lists, and what is no list."""
    found: list[Any] = []
    for piece in pieces:
        if isinstance(piece, (list, tuple)):
            found += [piece[at]] if len(piece) == length else piece
        else:
            found.append(piece)
    return [each for each in tensors_in(found) if id(each) not in out]


def _joined(name: str, target: torch.Tensor, masks: list[Mask]) -> Mask:
    """Return the mask of tensors that are put side by side along the first dimension."""
    if name == "stack":
        masks = [each[None] for each in masks]
    try:
        made: Mask = np.concatenate(masks)
    except ValueError:
        return mixed(masks)
    return made if made.shape == tuple(target.shape) else mixed(masks)


def _only_out(targets: list[Any], args: Any) -> set[int]:
    """Return the tensors that are written and not read: `out=`."""
    positional = {id(each) for each in tensors_in(args)}
    return {id(each) for each in tensors_in(targets)} - positional


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr() if tensor.layout is torch.strided else id(tensor)


def _fresh(kwargs: Any) -> bool:
    """Whether numbers are drawn from a generator of its own that was just seeded: they depend on the seed alone."""
    generator = kwargs.get("generator")
    if generator is None:
        return False
    anew = torch.Generator(generator.device).manual_seed(generator.initial_seed())
    return bool(torch.equal(anew.get_state(), generator.get_state()))


def _generators() -> tuple[Any, ...]:
    """Return the state of the generators that everything shares."""
    state: Any = np.random.get_state()
    cuda = tuple(torch.cuda.get_rng_state().tolist()) if torch.cuda.is_available() else ()
    return torch.get_rng_state().numpy().tobytes(), cuda, random.getstate(), state[1].tobytes(), state[2:]
