"""The ledger: births and deaths of storages, from whatever tells of them, as plain data.

Two tell: the allocator's own reports on a real step (`allocator`), and a dispatch mode that sees the operators of a
step of fake tensors, which never allocate (`follow`). What is made of a `History` does not depend on which it was.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Kind = Literal["parameters", "gradients", "saved for backward", "optimizer state", "inputs", "temporaries", "other"]
KINDS: tuple[Kind, ...] = (
    "parameters",
    "optimizer state",
    "inputs",
    "other",
    "gradients",
    "saved for backward",
    "temporaries",
)
"""All kinds, from what stays to what passes: the order of a stacked picture, from below."""

Phase = Literal["forward", "backward", "recomputation", "optimizer"]


@dataclass(slots=True)
class Block:
    """A storage, from its birth to its death.

    `born` and `died` are positions in the history's changes; `born` is -1 for what was there before the start, and
    `died` is None for what was still there at the end. `bytes` is the size at birth.
    """

    number: int
    bytes: int
    device: str
    born: int
    died: int | None = None
    kind: Kind = "other"
    name: str = ""
    """The name of the tensor or variable, where one is known."""
    op: str = ""
    """The operator that made it, such as `aten::addmm`; empty for what was there before the start."""
    node: str = ""
    """The autograd node, with its number: the one that ran, or in the forward pass the one that the operator made."""
    module: str = ""
    """The path of the module that it was made for; empty outside of all modules."""
    phase: Phase = "forward"
    shape: tuple[int, ...] | None = None
    dtype: str = ""
    source: str = ""
    """The line of the program, as `model.py:41`, or `forward of model.py:30` where only the function is known.

    What the backward pass made has that of the operation in the forward pass.
    """


@dataclass(frozen=True)
class Span:
    """A phase of the step: the changes from `first` up to and without `last`, and its nanoseconds."""

    phase: Phase
    first: int
    last: int
    began: int
    ended: int


@dataclass(frozen=True)
class History:
    """A step's memory as plain data: `time[i]` (ns), `block[i]` and `delta[i]` (bytes) are the i-th change."""

    blocks: tuple[Block, ...]
    spans: tuple[Span, ...]
    time: NDArray[np.int64]
    block: NDArray[np.int64]
    delta: NDArray[np.int64]
    began: int
    ended: int
    classes: Mapping[str, str] = field(default_factory=dict)
    """The class of each module by its path."""

    @property
    def start(self) -> int:
        """Bytes that were there before the first change."""
        return sum(b.bytes for b in self.blocks if b.born < 0)

    @property
    def total(self) -> NDArray[np.int64]:
        """Bytes alive after each change."""
        return self.start + np.cumsum(self.delta)

    @property
    def peak(self) -> int:
        """The most bytes alive at one time."""
        return max(self.start, int(self.total.max(initial=0)))

    @property
    def peak_at(self) -> int:
        """The first change after which the peak was reached; -1 if that was before all changes."""
        total = self.total
        return int(total.argmax()) if len(total) and total.max() > self.start else -1

    def alive(self, at: int) -> list[tuple[Block, int]]:
        """Return the blocks alive after change `at`, with their bytes then, the largest first."""
        bytes_of = np.bincount(self.block[: at + 1], self.delta[: at + 1], len(self.blocks)).astype(np.int64)
        held = ((b, int(bytes_of[b.number]) + (b.bytes if b.born < 0 else 0)) for b in self.blocks)
        return sorted(((b, n) for b, n in held if n > 0), key=lambda each: (-each[1], each[0].number))

    def by(self, attribute: str, at: int) -> dict[str, int]:
        """Return the bytes alive after change `at` by an attribute of the blocks, such as "kind", the most first."""
        sums: Counter[str] = Counter()
        for block, size in self.alive(at):
            sums[getattr(block, attribute)] += size
        return dict(sums.most_common())

    def phase_at(self, at: int) -> Phase:
        """Return the phase in which change `at` happened."""
        return next((s.phase for s in reversed(self.spans) if s.first <= at), "forward")


@dataclass
class Ledger:
    """Takes births and deaths by a key that is unique among the living: an address, or the identity of a storage."""

    began: int = field(default_factory=time.time_ns)
    blocks: list[Block] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    _living: dict[int, Block] = field(default_factory=dict)
    _sizes: dict[int, int] = field(default_factory=dict)
    _changes: list[tuple[int, int, int]] = field(default_factory=list)

    @property
    def position(self) -> int:
        """How many changes there are so far."""
        return len(self._changes)

    @property
    def phase(self) -> Phase:
        """The phase that was entered last."""
        return self.spans[-1].phase if self.spans else "forward"

    def living(self, key: int) -> Block | None:
        """Return the block that has this key now."""
        return self._living.get(key)

    def size(self, key: int) -> int:
        """Return the bytes that the block with this key has now."""
        block = self._living.get(key)
        return 0 if block is None else self._sizes[block.number]

    def existing(self, key: int, size: int, device: str) -> Block:
        """Note a storage that was there before the start."""
        return self._add(key, size, device, -1)

    def born(self, key: int, size: int, device: str, at: int | None = None) -> Block:
        """Note a birth at `at` ns; what is known besides is set on the block that is returned."""
        if key in self._living:  # its death was not reported
            self.died(key, at)
        block = self._add(key, size, device, len(self._changes))
        self._change(block, size, at)
        if self.spans:
            block.phase = self.spans[-1].phase
        return block

    def resized(self, key: int, size: int, at: int | None = None) -> None:
        """Note that a living storage has another size now."""
        block = self._living[key]
        self._change(block, size - self._sizes[block.number], at)
        self._sizes[block.number] = size

    def died(self, key: int, at: int | None = None) -> None:
        """Note a death; of an unknown storage it is ignored."""
        block = self._living.pop(key, None)
        if block is not None:
            block.died = len(self._changes)
            self._change(block, -self._sizes.pop(block.number), at)

    def taken_over(self, key: int, heir: int) -> None:
        """Say that the storage born last lives in the memory of another, which is therefore not dead: they are one."""
        assert self._living[heir] is self.blocks[-1]
        born = self.blocks.pop()
        self._changes.pop()
        del self._sizes[born.number]
        self._living[heir] = self._living.pop(key)

    def enter(self, phase: Phase, at: int | None = None) -> None:
        """Note the phase of what comes; the one it is in already changes nothing."""
        if self.spans and self.spans[-1].phase == phase:
            return
        now, position = time.time_ns() if at is None else at, len(self._changes)
        self._end_span(position, now)
        self.spans.append(Span(phase, position, position, now, now))

    def history(self, ended: int | None = None, classes: Mapping[str, str] | None = None) -> History:
        """Return everything as plain data. classes: those of the modules, by path."""
        ended = time.time_ns() if ended is None else ended
        self._end_span(len(self._changes), ended)
        columns = np.array(self._changes, np.int64).reshape(-1, 3).T.copy()
        spans = tuple(s for s in self.spans if s.last > s.first)
        return History(tuple(self.blocks), spans, columns[0], columns[1], columns[2], self.began, ended, classes or {})

    def _add(self, key: int, size: int, device: str, born: int) -> Block:
        block = self._living[key] = Block(len(self.blocks), size, device, born)
        self.blocks.append(block)
        self._sizes[block.number] = size
        return block

    def _change(self, block: Block, delta: int, at: int | None) -> None:
        self._changes.append((time.time_ns() if at is None else at, block.number, delta))

    def _end_span(self, position: int, now: int) -> None:
        if self.spans:
            last = self.spans[-1]
            self.spans[-1] = Span(last.phase, last.first, position, last.began, now)
