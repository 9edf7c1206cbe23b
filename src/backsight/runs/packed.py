"""Histograms as they are stored: most bins are empty, and what is in the others is mostly small."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from backsight.runs.schema import BINS


@dataclass(frozen=True, eq=False)
class PackedHistograms:
    """One histogram below the other, in the encoding of the file (docs/format.md).

    PackedHistograms.of(counts)     # of an array [n, BINS]
    """

    filled: NDArray[np.uint8]
    """Which bins are not empty, a bit each, the lowest first: [n, 8]."""
    counts: bytes
    """What is in these, row by row: LEB128, seven bits a byte, the lowest first."""

    def __len__(self) -> int:
        return len(self.filled)

    @classmethod
    def of(cls, counts: NDArray[np.uint32]) -> PackedHistograms:
        """Pack an array [n, BINS]."""
        filled = counts != 0
        values = counts[filled].astype("<u4")
        wide = [values >= np.uint32(1 << 7 * k) for k in range(1, 5)]
        sizes = np.add.reduce(wide, axis=0, dtype="<i8") + 1
        starts = np.cumsum(sizes) - sizes
        out = np.empty(int(sizes.sum()), "u1")
        out[starts] = (values & 0x7F) | (wide[0].astype("u1") << 7)
        for k in range(1, 5):
            more = np.flatnonzero(wide[k - 1])
            if not len(more):
                break
            follows = wide[k][more].astype("u1") << 7 if k < 4 else 0
            out[starts[more] + k] = ((values[more] >> np.uint32(7 * k)) & 0x7F) | follows
        return cls(np.packbits(filled, axis=1, bitorder="little").reshape(-1, BINS // 8), out.tobytes())

    @classmethod
    def none(cls, rows: int) -> PackedHistograms:
        """Return so many that are empty."""
        return cls(np.zeros((rows, BINS // 8), "u1"), b"")

    @classmethod
    def joined(cls, parts: Iterable[PackedHistograms]) -> PackedHistograms:
        """Return the parts one below the other."""
        held = list(parts)
        return cls(np.concatenate([part.filled for part in held]), b"".join([part.counts for part in held]))

    def but_empty(self, there: NDArray[np.bool_]) -> PackedHistograms:
        """Return the rows of a mask, [n]; in all the others nothing may be.

        Raises:
            ValueError: if something is, or the mask is for another number of rows.
        """
        if len(there) != len(self) or self.filled[~there].any():
            raise ValueError(f"{len(self)} histograms do not fit {len(there)} rows, of which {there.sum()} have one.")
        return PackedHistograms(self.filled[there], self.counts)
