"""Pages as the writer of a run takes them: numbers of tensors and metrics, and arrays."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from backsight.recording.page import Page, Row, Slot, Value
from backsight.recording.reading import joined, skipped
from backsight.recording.voice import Voice
from backsight.runs import RunWriter

REPLICATED = frozenset(("weight", "state", "update"))
"""Kinds that are the same on every rank under DistributedDataParallel; gradients arrive before they are averaged."""


class _Layout(NamedTuple):
    """Which rows a page has; one page is mostly laid out as the page before, and then all this is known."""

    rows: list[Row]
    starts: list[int]
    numbers: NDArray[np.int64]
    calls: NDArray[np.int64]
    places: NDArray[np.int64]


class Book:
    """Writes pages through a `RunWriter`; used by one thread at a time."""

    def __init__(self, writer: RunWriter, voice: Voice):
        self.writer = writer
        self.path = writer.path
        self._voice = voice
        self._numbers: dict[tuple[Slot, torch.Size, torch.dtype], int] = {}
        self._skipped: set[Slot] = set()
        self._layout: _Layout | None = None

    def page(self, page: Page) -> None:
        """Write the rows of a step."""
        if page.rows:
            self._write_rows(page)
        if page.values:
            self._write_values(page)

    def mark(self, step: int, tags: dict[str, Any]) -> None:
        """Write the tags of a step."""
        self.writer.mark(step, **{name: _plain(value) for name, value in tags.items()})

    def _write_rows(self, page: Page) -> None:
        rows = page.rows
        if any(not isinstance(reading, tuple) and reading.skipped for reading in page.readings):
            rows = [row for row in rows if self._has_numbers(page, row)]
            if not rows:
                return
        found = joined(page.readings, page.histograms)
        if self._layout is None or self._layout.rows != rows or self._layout.starts != found.starts:
            self._layout = self._laid_out(page, rows, found.starts)
        numbers, calls, places = self._layout[2:]
        self.writer.append(
            page.step,
            numbers,
            found.rows[places],
            call=calls,
            histograms=None if found.histograms is None else found.histograms[places],
            sampled=None if found.sampled is None else found.sampled[places],
        )

    def _laid_out(self, page: Page, rows: list[Row], starts: list[int]) -> _Layout:
        return _Layout(
            rows,
            starts,
            np.array([self._number(page, row[0], row[2], row[3]) for row in rows], "<i8"),
            np.array([row[1] for row in rows], "<i8"),
            np.array([starts[row[4]] + row[5] for row in rows], "<i8"),
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
                slot.name,
                slot.kind,
                slot.module,
                tuple(shape),
                str(dtype).removeprefix("torch."),
                replicated=page.replicated and slot.kind in REPLICATED,
            )
        return number

    def _has_numbers(self, page: Page, row: Row) -> bool:
        """Whether a row has numbers; if not, the reason is written down once for each tensor."""
        slot, _, _, _, reading, position = row
        reason = skipped(page.readings[reading], position)
        if reason is not None and slot not in self._skipped:
            self._skipped.add(slot)
            self.writer.event("skipped", step=page.step, tensor=slot.name, kind=slot.kind, reason=reason)
        return reason is None


def _plain(value: Any) -> Any:
    """Return a tensor as the numbers in it."""
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if isinstance(value, dict):
        return {key: _plain(held) for key, held in value.items()}
    return [_plain(held) for held in value] if isinstance(value, (list, tuple)) else value
