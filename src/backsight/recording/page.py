"""The rows of one step, as the taps take them down."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from time import time
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from backsight.recording.reading import Reading, Records
from backsight.recording.statistics import Desk, Measured, desk_for, measure
from backsight.tape import is_captured, version

if TYPE_CHECKING:
    from backsight.recording.metrics import Metrics


@dataclass(frozen=True, eq=False, slots=True)
class Slot:
    """What rows are of: `Slot("fc.weight", "grad", "fc")` is the gradient of a weight. Taps make each of them once."""

    name: str
    kind: str
    module: str | None
    _rows: dict[int, Row] = field(default_factory=dict, repr=False)
    """The last row of each call; the kernel looks them up here."""

    def row(self, call: int, tensor: torch.Tensor) -> Row:
        """Return the row of a tensor: the same object as long as its shape and type are the same."""
        row = self._rows.get(call)
        shape, dtype = tensor.shape, tensor.dtype
        if row is None or row[2] != shape or row[3] is not dtype:
            row = self._rows[call] = (self, call, shape, dtype)
        return row


Row = tuple[Slot, int, torch.Size, torch.dtype]
"""One tensor at one moment: its slot, the call, its shape and type.

Slots compare by identity and steps share their rows, so that to make a page and to see that it is laid out like the
one before costs next to nothing: a small model pays for little else.
"""

Entry = tuple[Slot, int, torch.Tensor]
"""A tensor to be taken down: for which slot, and in which call."""


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
    _sheet: Any = None
    """Where the kernel takes down the numbers of plain tensors, if there is a kernel; no other page has it now."""
    rows: list[Row] = field(default_factory=list)
    readings: list[Reading] = field(default_factory=list)
    """The numbers of the rows, in their order; whole when the page is finished."""
    values: list[Value] = field(default_factory=list)
    order: list[tuple[str, str]] = field(default_factory=list)
    """("enter" or "leave", module) as it happened."""
    replicated: bool = False
    """Whether every rank has the same weights."""
    ended: float = 0.0
    """When the step ended, in seconds since 1970."""
    _desk: Desk | None = None
    """Where tensors of a device have been measured since other numbers were last added to the readings."""
    _unmerged: list[tuple[int, Desk]] = field(default_factory=list)
    """Desks that were to end while a CUDA graph was captured, and their places among the readings."""
    _known: dict[int, tuple[weakref.ref[torch.Tensor], int, Measured]] = field(default_factory=dict)
    """What else has been read, by id: the tensor, its version then, and its numbers."""

    def __post_init__(self) -> None:
        if self._sheet is not None:
            self._sheet.begin(self.rows)

    def note(self, slot: Slot, call: int, tensor: torch.Tensor) -> None:
        """Measure a tensor now, as it may be gone or modified in a moment.

        The output of one module is the input of the next: the same tensor at the same version is read once.
        """
        if self._sheet is None or not self._sheet.note(slot, call, tensor):
            self._note_other(slot, call, tensor)
        if self.metrics is not None:
            self.metrics.apply(self, slot, call, tensor)

    def note_all(self, entries: list[Entry]) -> None:
        """Measure tensors that belong together, in one pass, for a row each."""
        if not entries:
            return
        if self._sheet is None or not self._sheet.note_all(entries):
            self._read([tensor for _, _, tensor in entries])
            self.rows += [slot.row(call, tensor) for slot, call, tensor in entries]
        if self.metrics is not None:
            for slot, call, tensor in entries:
                self.metrics.apply(self, slot, call, tensor)

    def _note_other(self, slot: Slot, call: int, tensor: torch.Tensor) -> None:
        """Take down a tensor that the kernel of the CPU cannot read by itself."""
        self._end_sheet()
        if not self._on_desk(tensor):
            self._end_desk()
            self._read_once(tensor)
        self.rows.append(slot.row(call, tensor))

    def _on_desk(self, tensor: torch.Tensor) -> bool:
        """Measure a tensor of a device on the desk of those before it, or on a new one; return whether it was."""
        if self._desk is None or not self._desk.put(tensor):
            self._end_desk()
            self._desk = desk_for(tensor, self.histograms)
            return self._desk is not None and self._desk.put(tensor)
        return True

    def _read_once(self, tensor: torch.Tensor) -> None:
        known = self._known.get(id(tensor))
        at = version(tensor)
        if known is not None and known[1] == at and known[0]() is tensor:
            self.readings.append(known[2])
        else:
            measured = self._read([tensor])
            if at is not None:
                self._known[id(tensor)] = weakref.ref(tensor), at, measured

    def _read(self, tensors: list[torch.Tensor]) -> Measured:
        self._end_sheet()
        self._end_desk()
        measured = measure(tensors, histogram=self.histograms)
        self.readings.append(measured)
        return measured

    def _end_sheet(self) -> None:
        """Put what is on the sheet below the readings so far; what is on the desk came before it."""
        if self._sheet is not None:
            records, counts, negatives = self._sheet.take()
            if records:
                self._end_desk()
                self.readings.append(Records(records, counts, negatives))

    def _end_desk(self) -> None:
        """Put what is on the desk below the readings so far; later, where nothing can be launched now."""
        desk, self._desk = self._desk, None
        if desk is not None:
            if is_captured():
                self._unmerged.append((len(self.readings), desk))
            else:
                self.readings.append(desk.measured())

    def finish(self) -> None:
        """Note when this was, and let go of what points to tensors."""
        self.ended = time()
        self._end_sheet()
        self._end_desk()
        for place, desk in reversed(self._unmerged):
            self.readings.insert(place, desk.measured())
        self._unmerged.clear()
        self._sheet = None
        self._known.clear()

    def __bool__(self) -> bool:
        return bool(self.rows or self.values)
