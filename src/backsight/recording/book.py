"""Pages as the writer of a run takes them: numbers of tensors and metrics, and arrays."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from backsight.recording.observed import numbered
from backsight.recording.page import Page, Row, Slot, Value
from backsight.recording.reading import joined, skipped
from backsight.recording.statistics._torch import beside_captures
from backsight.recording.voice import Voice
from backsight.runs import RunWriter

Numbers = dict[str, list[float | torch.Tensor]]
"""By name the values that make one number of a step, their mean."""

REPLICATED = frozenset(("weight", "state", "update", "averaged_grad"))
"""Kinds that are the same on every rank under DistributedDataParallel; gradients arrive before they are averaged."""


@dataclass(frozen=True)
class _Layout:
    """Which rows a page has; one page is mostly laid out as the page before, and then all this is known."""

    rows: list[Row]
    replicated: bool
    numbers: NDArray[np.int64]
    calls: NDArray[np.int64]

    def fits(self, page: Page) -> bool:
        """Whether this page is laid out so."""
        return self.rows == page.rows and self.replicated == page.replicated


class Book:
    """Writes pages through a `RunWriter`; used by one thread at a time."""

    def __init__(self, writer: RunWriter, voice: Voice):
        self.writer = writer
        self.path = writer.path
        self._voice = voice
        self._numbers: dict[tuple[Slot, torch.Size, torch.dtype], int] = {}
        self._owners: dict[tuple[str, str], list[str | None]] = {}
        """The modules that have a tensor of this name and kind: what `forward(self, b)` of `a` is given as `b["x"]`, is
        called as what the module `a.b` is given as `x`."""
        self._skipped: set[Slot] = set()
        self._layout: _Layout | None = None

    def pages(self, pages: Sequence[Page]) -> None:
        """Write the rows of steps; those of neighbouring steps that are laid out alike go to the writer together."""
        alike: list[Page] = []
        if pages and (held := memory_held()):
            self.writer.scalars(pages[-1].step, held)
        for page in pages:
            if reasons := skipped(page.readings, page.histograms):
                self._leave_out(page, reasons)
            if self._layout is None or not self._layout.fits(page):
                self._write_rows(alike)
                alike, self._layout = [], self._laid_out(page)
            alike.append(page)
            if page.values:
                self._write_values(page)
        self._write_rows(alike)

    def mark(self, step: int, tags: dict[str, Any]) -> None:
        """Write the tags of a step."""
        self.writer.mark(step, **{name: _plain(value) for name, value in tags.items()})

    def scalars(self, taken: Iterable[tuple[int, Numbers]]) -> None:
        """Write numbers of steps, each the mean of its values; waits for their device, and ends no capture there."""
        found: dict[str, dict[int, float]] = {}
        with beside_captures():
            for step, numbers in taken:
                for name, held in numbers.items():
                    found.setdefault(name, {})[step] = float(held[0]) if len(held) == 1 else fmean(map(float, held))
        for name, values in found.items():
            self.writer.scalars(list(values), {name: list(values.values())})

    def _write_rows(self, pages: list[Page]) -> None:
        """Write the rows of pages that are laid out as `self._layout` says."""
        layout = self._layout
        if layout is None or not layout.rows or not pages:
            return
        count = len(pages)
        found = joined([reading for page in pages for reading in page.readings], pages[0].histograms)
        self.writer.append(
            np.repeat(np.array([page.step for page in pages], "<i8"), len(layout.rows)),
            np.tile(layout.numbers, count),
            found.rows,
            call=np.tile(layout.calls, count),
            histograms=found.histograms,
            negatives=found.negatives,
            sampled=found.sampled,
            ended={page.step: page.ended for page in pages},
        )

    def _laid_out(self, page: Page) -> _Layout:
        return _Layout(
            page.rows,
            page.replicated,
            np.array([self._number(page, slot, shape, dtype) for slot, _, shape, dtype in page.rows], "<i8"),
            np.array([call for _, call, _, _ in page.rows], "<i8"),
        )

    def _write_values(self, page: Page) -> None:
        by_metric: dict[tuple[str, int | None], list[tuple[Value, Any]]] = {}
        for value in page.values:
            plain = _plain(value.value)
            width = len(plain) if isinstance(plain, list) else None
            by_metric.setdefault((value.metric, width), []).append((value, plain))
        for (metric, _), values in by_metric.items():
            self.writer.values(
                page.step,
                self.writer.metric(metric),
                [self._number(page, value.slot, value.shape, value.dtype) for value, _ in values],
                [plain for _, plain in values],
                call=[value.call for value, _ in values],
            )

    def _number(self, page: Page, slot: Slot, shape: torch.Size, dtype: torch.dtype) -> int:
        number = self._numbers.get((slot, shape, dtype))
        if number is None:
            number = self._numbers[slot, shape, dtype] = self.writer.tensor(
                self._name(slot),
                slot.kind,
                slot.module,
                tuple(shape),
                str(dtype).removeprefix("torch."),
                replicated=page.replicated and slot.kind in REPLICATED,
            )
        return number

    def _name(self, slot: Slot) -> str:
        owners = self._owners.setdefault((slot.name, slot.kind), [])
        if slot.module not in owners:
            owners.append(slot.module)
        return numbered(slot.name, owners.index(slot.module) + 1)

    def _leave_out(self, page: Page, reasons: dict[int, str]) -> None:
        """Leave out the rows that have no numbers; the reason is written down once for each tensor."""
        for at, reason in reasons.items():
            slot = page.rows[at][0]
            if slot not in self._skipped:
                self._skipped.add(slot)
                self.writer.event("skipped", step=page.step, tensor=self._name(slot), kind=slot.kind, reason=reason)
        page.rows = [row for at, row in enumerate(page.rows) if at not in reasons]


def _plain(value: Any) -> Any:
    """Return a tensor as the numbers in it."""
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if isinstance(value, dict):
        return {key: _plain(held) for key, held in value.items()}
    return [_plain(held) for held in value] if isinstance(value, (list, tuple)) else value


_STATM = "/proc/self/statm"
"""Where Linux says it, in pages."""


def memory_held() -> dict[str, int]:
    """Return bytes: `memory`, what is resident of the process, and `device_memory_peak`, the most that tensors held.

    What the system does not tell is left out; no device is waited for.
    """
    found: dict[str, int] = {}
    if sys.platform == "linux":
        try:
            with open(_STATM, encoding="ascii") as file:
                found["memory"] = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except (OSError, ValueError, IndexError):  # no /proc in some containers
            pass
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]  # without annotations
        found["device_memory_peak"] = torch.cuda.max_memory_allocated()
    return found
