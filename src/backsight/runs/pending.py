"""What has been appended and not yet written: copies, so that the caller may use its buffers again."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from backsight.runs.blocks import packed
from backsight.runs.packed import PackedHistograms
from backsight.runs.schema import BINS, STATISTICS, Columns, chosen, joined


@dataclass
class Pending:
    """The parts of each table, and how many rows of the statistics these are."""

    size: int = 0
    parts: dict[str, list[Columns]] = field(default_factory=dict)
    histograms: list[tuple[PackedHistograms, PackedHistograms]] = field(default_factory=list)
    """What the parts of table H lack: all counts, and those of negative numbers."""
    times: dict[int, float] = field(default_factory=dict)
    last: tuple[int, int] = (-1, 0)
    """The step of the last row, and how many rows it has so far: their order goes on over a flush."""

    def __bool__(self) -> bool:
        return bool(self.times or self.parts)

    def following(self) -> Pending:
        """Return an empty one that goes on where this one ends."""
        return Pending(last=self.last)

    def rows(
        self,
        step: ArrayLike,
        tensors: NDArray[np.int64],
        rows: NDArray[np.void],
        call: ArrayLike,
        sampled: ArrayLike,
        histograms: ArrayLike | PackedHistograms | None,
        negatives: ArrayLike | PackedHistograms | None = None,
        ended: Mapping[int, float] | None = None,
    ) -> None:
        """Keep rows of the statistics and the histograms of those that were looked at: all of them, or nothing.

        Raises:
            ValueError: if these do not fit together.
        """
        times, part = _times(step), _keyed(step, tensors, call)
        looked_at = _column(sampled, len(rows))
        there = looked_at > 0
        packed = None if histograms is None else _packed(histograms, negatives, there)
        self.times.update({number: (ended or {}).get(number, now) for number, now in times.items()})
        if not len(rows):
            return
        if packed and there.any():
            signed = _column(int(negatives is not None), len(rows))
            self._keep("H", chosen({**part, "sampled": looked_at, "signed": signed}, there))
            self.histograms.append(packed)
        part["order"] = self._order(part["step"])
        for name in STATISTICS.names or ():
            part[name] = rows[name].copy()
        self._keep("R", part)
        self.size += len(rows)

    def values(
        self, step: int, tensors: NDArray[np.int64], call: ArrayLike, metric: int, values: NDArray[np.float64]
    ) -> None:
        """Keep values of a metric; a second dimension is that of its elements.

        Raises:
            ValueError: if these do not fit together.
        """
        width = values.shape[1] if values.ndim == 2 else 1
        times, keyed = _times(step), _keyed(step, tensors, call)
        part = {name: np.repeat(column, width) for name, column in keyed.items()}
        part["metric"] = np.full(values.size, metric, "<i8")
        first = 0 if values.ndim == 2 else -1
        part["element"] = np.tile(np.arange(first, first + width, dtype="<i8"), len(tensors))
        part["value"] = values.reshape(-1).copy()
        self.times.update(times)
        self._keep("V", part)

    def numbers(self, number: int, steps: ArrayLike, values: ArrayLike) -> None:
        """Keep numbers of steps that are about no tensor, all of one name.

        Raises:
            ValueError: if these do not fit together.
        """
        held = np.array(values, "<f8").reshape(-1)
        at = _column(steps, len(held))
        if len(at) and not 0 <= at.min() <= at.max() < 1 << 62:
            raise ValueError(f"a step must be a number from 0 up, not {at.min()}.")
        self._keep("N", {"tensor": np.full(len(held), number, "<i8"), "step": at, "value": held})

    def blocks(self) -> bytes:
        """Return everything as blocks."""
        steps: Columns = {"step": np.array(list(self.times), "<i8"), "time": np.array(list(self.times.values()), "<f8")}
        tables: dict[str, dict[str, Any]] = {table: {**joined(table, parts)} for table, parts in self.parts.items()}
        if self.histograms:
            for name, held in zip(("counts", "negatives"), zip(*self.histograms, strict=True), strict=True):
                tables["H"][name] = PackedHistograms.joined(held)
        first = packed("S", steps) if self.times else b""
        return first + b"".join(packed(table, tables[table]) for table in sorted(tables, reverse=True))

    def _order(self, steps: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return which row of its step each row is."""
        begins = np.concatenate(([0], np.flatnonzero(steps[1:] != steps[:-1]) + 1))
        lengths = np.diff(begins, append=len(steps))
        order: NDArray[np.int64] = np.arange(len(steps), dtype="<i8") - np.repeat(begins, lengths)
        if self.last[0] == steps[0]:
            order[: lengths[0]] += self.last[1]
        self.last = (int(steps[-1]), int(order[-1]) + 1)
        return order

    def _keep(self, table: str, part: Columns) -> None:
        if len(part["tensor"]):
            self.parts.setdefault(table, []).append(part)


def _column(values: ArrayLike, rows: int) -> NDArray[np.int64]:
    return np.array(np.broadcast_to(np.asarray(values, "<i8"), (rows,)))


def _times(step: ArrayLike) -> dict[int, float]:
    """Return that a step happened now, or several."""
    now = time.time()
    steps = [int(number) for number in ((step,) if isinstance(step, int) else np.unique(np.asarray(step)).tolist())]
    for number in steps:
        if not 0 <= number < 1 << 62:
            raise ValueError(f"a step must be a number from 0 up, not {number}.")
    return dict.fromkeys(steps, now)


def _keyed(step: ArrayLike, tensors: NDArray[np.int64], call: ArrayLike) -> Columns:
    rows = len(tensors)
    return {"tensor": tensors.copy(), "step": _column(step, rows), "call": _column(call, rows)}


def _packed(
    counts: ArrayLike | PackedHistograms, negatives: ArrayLike | PackedHistograms | None, there: NDArray[np.bool_]
) -> tuple[PackedHistograms, PackedHistograms]:
    """Return the histograms of those rows that were looked at, and of the negative numbers among them."""
    held = _packed_one("histograms", counts, there)
    below = PackedHistograms.none(len(held)) if negatives is None else _packed_one("negatives", negatives, there)
    if (below.filled & ~held.filled).any():
        raise ValueError("negatives counts numbers in bins in which histograms counts none.")
    return held, below


def _packed_one(name: str, counts: ArrayLike | PackedHistograms, there: NDArray[np.bool_]) -> PackedHistograms:
    if isinstance(counts, PackedHistograms):
        return counts.but_empty(there)
    held = np.asarray(counts, "<u4")
    if held.shape != (len(there), BINS):
        raise ValueError(f"{name} must be [{len(there)}, {BINS}]; it is {list(held.shape)}.")
    return PackedHistograms.of(held[there])
