"""The rows of one step, as the taps take them down."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from backsight.recording._torch import version
from backsight.recording.reading import Reading, read

if TYPE_CHECKING:
    from backsight.recording.metrics import Metrics


@dataclass(frozen=True, eq=False, slots=True)
class Slot:
    """What rows are of: `Slot("fc.weight", "grad", "fc")` is the gradient of a weight. Taps make each of them once."""

    name: str
    kind: str
    module: str | None


Row = tuple[Slot, int, torch.Size, torch.dtype, int, int]
"""One tensor at one moment: its slot, the call, its shape and type; its numbers: which reading, and which row of it.

Rows are plain tuples, and slots compare by identity, because a small model pays for little else.
"""


class Value(NamedTuple):
    """What a metric said of a tensor."""

    slot: Slot
    call: int
    shape: torch.Size
    dtype: torch.dtype
    metric: str
    value: Any


@dataclass(eq=False, slots=True)
class Page:
    """The rows of one step in the order in which they came about; it holds numbers, and no tensor of the program."""

    step: int
    histograms: bool = True
    metrics: Metrics | None = None
    """The user's own metrics, if there are any."""
    rows: list[Row] = field(default_factory=list)
    readings: list[Reading] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)
    order: list[tuple[str, str]] = field(default_factory=list)
    """("enter" or "leave", module) as it happened."""
    replicated: bool = False
    """Whether every rank has the same weights."""
    _known: dict[int, tuple[weakref.ref[torch.Tensor], int, int]] = field(default_factory=dict)
    """What has been read, by id: the tensor, its version then, and the reading."""

    def note(self, slot: Slot, call: int, tensor: torch.Tensor) -> None:
        """Measure a tensor now, as it may be gone or modified in a moment.

        The output of one module is the input of the next: the same tensor at the same version is read once.
        """
        known = self._known.get(id(tensor))
        at = version(tensor)
        if known is not None and known[1] == at and known[0]() is tensor:
            reading = known[2]
        else:
            reading = len(self.readings)
            self.readings.append(read([tensor], self.histograms))
            if at is not None:
                self._known[id(tensor)] = weakref.ref(tensor), at, reading
        self.rows.append((slot, call, tensor.shape, tensor.dtype, reading, 0))
        if self.metrics is not None:
            self.metrics.apply(self, slot, call, tensor)

    def note_all(self, slots: Sequence[Slot], calls: Sequence[int], tensors: Sequence[torch.Tensor]) -> None:
        """Measure tensors that belong together, in one pass."""
        if not tensors:
            return
        reading = len(self.readings)
        self.readings.append(read(tensors, self.histograms))
        self.rows += [
            (slot, call, tensor.shape, tensor.dtype, reading, position)
            for position, (slot, call, tensor) in enumerate(zip(slots, calls, tensors, strict=True))
        ]
        if self.metrics is not None:
            for slot, call, tensor in zip(slots, calls, tensors, strict=True):
                self.metrics.apply(self, slot, call, tensor)

    def finish(self) -> None:
        """Let go of what points to tensors."""
        self._known.clear()

    def __bool__(self) -> bool:
        return bool(self.rows or self.values)
