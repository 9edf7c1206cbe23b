"""`Forecast`: what a training step will need at its peak, where that is, and what other ways would need."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from backsight.memory.advice import FLAG, sentences
from backsight.memory.caching_allocator import OutOfDeviceMemory, replay
from backsight.memory.explain import Peak
from backsight.memory.ledger import History
from backsight.memory.size import bytes_of
from backsight.memory.timeline import StepMemory
from backsight.memory.way import Way
from backsight.text import PIPED, amount, listed, size

if TYPE_CHECKING:
    from backsight.text.rich import Console, ConsoleOptions, RenderResult, Table

MARGIN = "768MB"
"""What `fits` leaves for what is not known: the CUDA context, about 500 MB, and the workspaces of libraries."""

UNKNOWN = {
    "cuda": (
        "A forecast for CUDA: the step was not run. It does not include the CUDA context and the workspaces of cuBLAS "
        "and cuDNN (some hundred MB). RMSNorm, dropout, attention, softmax, LSTMs and mixed precision are counted as "
        "on CUDA, all other operators as on the CPU."
    ),
    "cpu": "A forecast for the CPU: the step did not run.",
}


@dataclass(frozen=True)
class Variant:
    """A step done in one way: `memory` is all of it over time, `reserved` what CUDA's allocator takes from the device.

    `reserved` is None if the allocator was not asked for. `memory` has a `.table()`, `.plot()` and `.to_html()`.
    """

    way: Way
    memory: StepMemory = field(repr=False)
    reserved: int | None = None

    @property
    def peak(self) -> int:
        """Return the most bytes of tensors at one time."""
        return self.memory.peak

    @property
    def at_peak(self) -> Peak:
        """Return where the peak is and what it is made of; `str` tells it in words."""
        return self.memory.at_peak

    def fits(self, memory: str | int, *, margin: str | int = MARGIN) -> bool:
        """Return whether it fits into the memory of a device, such as "24GB", `margin` left for what is not known.

        Raises ValueError for what is no size.
        """
        room = bytes_of(memory) - bytes_of(margin)
        if self.reserved is None or self.reserved <= room or self.peak > room:
            return (self.peak if self.reserved is None else self.reserved) <= room
        try:
            replay(requests(self.memory.history), capacity=room)  # gives back what is cached before it fails
        except OutOfDeviceMemory:
            return False
        return True

    def __str__(self) -> str:
        """Return the way and its peak in words."""
        return f"{self.way}: {self.at_peak}"


@dataclass(frozen=True)
class Forecast:
    """What a training step will need, and what other ways of doing it would need: plain data, without a tensor.

    `variants[0]` is the step as it was asked for, and `peak`, `reserved` and `at_peak` are its own. `device` is what
    the step is thought to run on ("cuda" or "cpu"), `device_memory` the bytes of that device, if they were given.
    `optimizers` are the classes of those that the step is given, AdamW if none was; a step may create its own.
    """

    variants: tuple[Variant, ...]
    device: str
    device_memory: int | None = None
    notes: tuple[str, ...] = ()
    optimizers: tuple[str, ...] = ()

    @property
    def peak(self) -> int:
        """Return the most bytes of tensors at one time."""
        return self.variants[0].peak

    @property
    def reserved(self) -> int | None:
        """Return the bytes that CUDA's caching allocator takes from the device; None if it was not asked for."""
        return self.variants[0].reserved

    @property
    def at_peak(self) -> Peak:
        """Return where the peak is and what it is made of; `str` tells it in words."""
        return self.variants[0].at_peak

    @property
    def memory(self) -> StepMemory:
        """Return the memory of the step over time, with a `.table()`, `.plot()` and `.to_html()`."""
        return self.variants[0].memory

    @property
    def advice(self) -> tuple[str, ...]:
        """Return whether gradient release, checkpointing and another implementation help, a sentence each."""
        return tuple(sentences(self.variants))

    @property
    def unknown(self) -> str:
        """Return what the forecast does not know, in words."""
        return UNKNOWN[self.device]

    def fits(self, memory: str | int | None = None, *, margin: str | int = MARGIN) -> bool:
        """Return whether the step fits into the memory of a device, by default the one that was given.

        Raises ValueError if none was given, and for what is no size.
        """
        if memory is None:
            memory = self.device_memory
        if memory is None:
            raise ValueError('How much memory is there? Use fits("24GB"), or forecast(..., device_memory="24GB").')
        return self.variants[0].fits(memory, margin=margin)

    def table(self) -> Table:
        """Return the ways as a table for `rich`, the step as it was asked for first."""
        from backsight.text.rich import Table

        table = Table(box=None, pad_edge=False, header_style="dim")
        columns = self._columns()
        for name in columns:
            table.add_column(
                name, justify="right" if name in ("peak", "reserved") else "left", no_wrap=name != "where the peak is"
            )
        for variant in self.variants:
            asked = variant is self.variants[0] and len(self.variants) > 1
            table.add_row(*(cell(variant) for cell in columns.values()), style="bold" if asked else None)
        return table

    def _columns(self) -> dict[str, Callable[[Variant], str]]:
        """Return what each column shows of a variant, by its heading."""
        columns: dict[str, Callable[[Variant], str]] = {
            "way": lambda each: str(each.way),
            "peak": lambda each: amount(each.peak),
        }
        if self.reserved is not None:
            columns["reserved"] = lambda each: amount(each.reserved or 0)
        if (memory := self.device_memory) is not None:
            columns[f"fits {amount(memory)}"] = lambda each: "yes" if each.fits(memory) else "no"
        columns["where the peak is"] = lambda each: each.at_peak.where
        return columns

    def __str__(self) -> str:
        """Return what it says, as text."""
        from backsight.text.console import printed

        return printed(self, width=PIPED)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield what `str` says, as wide as the terminal."""
        yield from self._heading()
        yield ""
        if len(self.variants) > 1 or self.device_memory is not None or self.reserved is not None:
            yield self.table()
            yield ""
        if any(each.way.implementation == "loop" for each in self.variants):
            yield f"loop: one parameter after another, with {FLAG['loop']}."
        if self.device_memory is not None:
            yield self._left(self.device_memory)
        if advice := self.advice:
            yield from advice
            yield ""
        yield from self.notes
        yield self.unknown

    def _left(self, memory: int) -> str:
        """Return what `fits` leaves of the memory, and that nothing fits if that is all of it."""
        none = f"Nothing fits into {size(memory)}: " if memory <= bytes_of(MARGIN) else ""
        return (
            f"{none}`fits` leaves {size(bytes_of(MARGIN))} for the CUDA context and the workspaces of libraries "
            "(margin= of `fits()`)."
        )

    def _heading(self) -> Iterator[str | Table]:
        """Yield how much the step needs and where, and a line for each part of it, the largest first."""
        from backsight.text.rich import Table, Text

        peak, device = self.at_peak, "CUDA" if self.device == "cuda" else "the CPU"
        optimizers = f" with {listed(self.optimizers)}" if self.optimizers else ""
        yield f"Peak {amount(peak.bytes)} on {device}{optimizers}, {peak.where}:"
        parts = Table.grid(padding=(0, 2, 0, 0))
        parts.add_column(justify="right", no_wrap=True)
        for held, what in peak.parts:
            parts.add_row(Text(f"  {amount(held)}"), Text(what))
        yield parts


def requests(history: History) -> Iterator[tuple[int, int]]:
    """Yield what a program asks of its allocator: (key, bytes), negative where it gives back.

    A storage that changes its size is given back and asked for anew.
    """
    held: dict[int, int] = {}
    for block in history.blocks:
        if block.born < 0:
            held[block.number] = block.bytes
            yield block.number, block.bytes
    for number, delta in zip(history.block.tolist(), history.delta.tolist(), strict=True):
        before = held.pop(number, 0)
        if before:
            yield number, -before
        if before + delta > 0:
            held[number] = before + delta
            yield number, before + delta
