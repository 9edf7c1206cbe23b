"""What the rows of a group come to, however long it is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from backsight.drawing.heat import Warmth
from backsight.drawing.marks import Marks
from backsight.tape.rows import Rows


@dataclass(frozen=True, eq=False)
class _Sums:
    """Running sums: `sums(range(a, b))` in constant time."""

    before: NDArray[np.float64]

    @classmethod
    def of(cls, values: NDArray[np.float64]) -> _Sums:
        return cls(np.concatenate([[0.0], np.cumsum(values)]))

    def __call__(self, span: range) -> float:
        return float(self.before[span.stop] - self.before[span.start])


class Totals:
    """What the rows of a group come to."""

    def __init__(self, rows: Rows, marks: Marks, warmth: Warmth):
        n = len(rows)
        self._warmth = warmth
        self._saved = _Sums.of(np.array(rows.saved, np.float64))
        self._modified = _Sums.of(np.array(["modified" in s for s in rows.state], np.float64))
        self._freed = _Sums.of(np.array([s == "freed" for s in rows.state], np.float64))
        self._hot = _Sums.of(np.isin(np.arange(n), list(marks.hot)).astype(np.float64))
        self._shared = _Sums.of(np.isin(np.arange(n), list(marks.shared)).astype(np.float64))

    def saved(self, span: range) -> int:
        """Return the bytes that they save."""
        return round(self._saved(span))

    def heat(self, span: range) -> float:
        """Return what a box of them is coloured by."""
        if self._warmth.adds_up:
            return self._saved(span)
        return float(np.max(self._warmth.values[span.start : span.stop], initial=0.0))

    def hot(self, span: range) -> bool:
        """Return whether the highlighted path runs through them."""
        return self._hot(span) > 0

    def shared(self, span: range) -> bool:
        """Return whether another graph contains some of them."""
        return self._shared(span) > 0

    def state(self, span: range) -> str:
        """Return how many have saved tensors that were modified or freed, in words."""
        modified, freed = self._modified(span), self._freed(span)
        return f"{modified:.0f} modified" if modified else f"{freed:.0f} freed" if freed else ""
