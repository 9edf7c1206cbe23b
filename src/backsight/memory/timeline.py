"""`StepMemory`: what the memory of a step was, as plain data with views."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from backsight.memory.explain import Peak, peak_of
from backsight.memory.ledger import Block, History, Kind, Phase

if TYPE_CHECKING:
    from backsight.text.rich import Console, ConsoleOptions, RenderResult


@dataclass(frozen=True, slots=True)
class Event:
    """A storage was born (`bytes` above 0), died, or changed its size; `total` is what was alive after it."""

    seconds: float
    bytes: int
    total: int
    phase: Phase
    block: Block


class StepMemory:
    """Bytes over time within a step, on one device.

    ```python
    with backsight.measure_memory(model) as m:
        step()
    m.peak, m.by_kind["gradients"], m.by_module, m.by_node    # bytes at the peak
    print(m.at_peak)                                          # the peak in words
    ```

    Plain data: it can be pickled, and keeps no tensor alive. It is empty until the `with` ends.
    """

    def __init__(self, history: History | None = None, *, forecast: bool = False):
        self._history = history
        self.others: tuple[str, ...] = ()
        """Other devices that took memory."""
        self.failed = ""
        """The name of the exception that ended the step; empty if none did."""
        self.is_forecast = forecast

    def fill(self, history: History, others: tuple[str, ...] = (), *, failed: str = "") -> None:
        """Take what was measured."""
        self._history, self.others, self.failed = history, others, failed

    @property
    def ended(self) -> bool:
        """Whether the measurement is made."""
        return self._history is not None

    @property
    def history(self) -> History:
        """All births and deaths.

        Raises:
            RuntimeError: if the step has not ended.
        """
        if self._history is None:
            raise RuntimeError("nothing is measured yet: the `with` of measure_memory() must end first.")
        return self._history

    @property
    def device(self) -> str:
        """The device whose memory this is."""
        return next((block.device for block in self.history.blocks), "cpu")

    @property
    def peak(self) -> int:
        """The most bytes that were alive at one time."""
        return self.history.peak

    @property
    def start(self) -> int:
        """Bytes alive before the step."""
        return self.history.start

    @property
    def end(self) -> int:
        """Bytes alive after the step."""
        total = self.history.total
        return int(total[-1]) if len(total) else self.start

    @cached_property
    def at_peak(self) -> Peak:
        """What was alive at the peak and where that was; `str(m.at_peak)` tells it in words."""
        return peak_of(self.history)

    @property
    def by_kind(self) -> dict[Kind, int]:
        """Bytes at the peak by kind, all kinds."""
        return dict(self.at_peak.by_kind)

    @property
    def by_module(self) -> dict[str, int]:
        """Bytes at the peak by the module that they were made for, the most first; "" is outside of all modules.

        Parameters, gradients and optimizer state count for the module that has the parameter.
        """
        return self.history.by("module", self.history.peak_at)

    @property
    def by_node(self) -> dict[str, int]:
        """Bytes at the peak by the autograd node that made or saved them, the most first; "" is outside of autograd."""
        return self.history.by("node", self.history.peak_at)

    @property
    def events(self) -> tuple[Event, ...]:
        """Every birth and death, in order."""
        history = self.history
        columns = (history.time, history.block, history.delta, history.total)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        return tuple(
            Event((time - history.began) / 1e9, delta, total, history.phase_at(at), history.blocks[block])
            for at, (time, block, delta, total) in enumerate(rows)
        )

    def table(self, *, rows: int = 12, width: int | None = None) -> str:
        """Return kinds, modules and the largest tensors at the peak as text, `rows` of each at most."""
        from backsight.memory.table import text

        return text(self, rows, width)

    def plot(self, path: str | os.PathLike[str] | None = None, *, ax: Any = None) -> Any:
        """Draw bytes by kind over time with matplotlib; returns the figure, and saves it if there is a path.

        Raises:
            ImportError: if matplotlib is not installed.
        """
        from backsight.memory.plot import plot

        return plot(self, path, ax)

    @overload
    def to_html(self, path: None = None) -> str: ...

    @overload
    def to_html(self, path: str | os.PathLike[str]) -> Path: ...

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str | Path:
        """Write one self-contained page that shows the step, and return its path; without a path, return the page."""
        from backsight.memory.page import page

        html = page(self)
        return html if path is None else _written(html, path)

    def document(self) -> dict[str, Any]:
        """Return every birth and death as plain JSON, from which `backsight.memory.memory_of` makes this again."""
        from backsight.memory.document import document

        return document(self)

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write a trace for Perfetto or chrome://tracing: counters by kind, phases, the largest storages as bars."""
        from backsight.memory.trace import trace

        _written(trace(self), path)

    def export_cuda_snapshot(self, path: str | os.PathLike[str]) -> None:
        """Write the pickle that https://pytorch.org/memory_viz reads, made of what was measured, for any device."""
        from backsight.memory.cuda import snapshot_file

        snapshot_file(self.history, path)

    def __str__(self) -> str:
        return self.table() if self.ended else repr(self)

    def __repr__(self) -> str:
        if not self.ended:
            return "<memory of a step that has not ended>"
        return f"<memory of a step on {self.device}: peak {self.peak:,} bytes>"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from backsight.memory.table import renderables

        yield from renderables(self, 12, options.max_width)


def _written(text: str, path: str | os.PathLike[str]) -> Path:
    (written := Path(path)).write_text(text, encoding="utf-8")
    return written
