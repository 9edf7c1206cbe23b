"""How the numbers of a tensor are spread, by magnitude and sign, over the steps."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from backsight.runs import BINS, LOWEST_EXPONENT, Run
from backsight.viewer.packing import packed
from backsight.viewer.question import Answer, Asked, question

AT_ONCE = 1 << 15
"""Steps that are read at once, so that a long run takes time and no more memory."""

MOST_RIDGES = 40
"""One curve in front of the other: more of them hide each other."""

_HARDLY_ANY = 1 / 30
"""Of the largest share: what hardly an element has would leave no room for the rest."""

Shares = NDArray[np.float64]


@question("histograms")
def histograms(run: Run, asked: Asked) -> Answer:
    """`tensor`, `kind`, and if wanted `first`, `last`, `rank`, `columns`: by column the share of each bin.

    A share is `most` times the square of its shade of 255. `ridges` has some of the columns by sign: see there.
    """
    tensor, kind, window = asked.word("tensor"), asked.word("kind"), asked.window() or slice(None)
    there = run.steps
    there = there[(there >= (window.start or 0)) & (there < (window.stop or 1 << 62))]
    edges = np.unique(np.linspace(0, len(there), min(asked.columns(300), len(there)), endpoint=False).astype("<i8"))
    counts, seen, last, signed = np.zeros((2, len(edges), BINS)), np.zeros(len(edges)), 0, True
    for first in range(0, max(len(there), 1), AT_ONCE):
        part = there[first : first + AT_ONCE]
        steps = slice(int(part[0]), int(part[-1]) + 1) if len(part) else window
        found = run.histograms(tensor, kind=kind, steps=steps, rank=asked.rank)
        if not len(found):
            continue
        last, signed = int(found.steps[-1]), signed and bool(found.signed.all())
        column = np.searchsorted(there[edges], found.steps, side="right") - 1
        starts = np.flatnonzero(np.diff(column, prepend=-1))
        for side, held in enumerate((found.counts, found.negatives)):
            counts[side, column[starts]] += np.add.reduceat(held, starts, axis=0, dtype="<f8")
        seen[column[starts]] += np.add.reduceat(found.sampled, starts, dtype="<f8")
    held = np.flatnonzero(seen > 0)
    shares, negative = counts[:, held] / np.maximum(seen[held], 1)[:, None]
    most = (float(shares.max()) if len(held) else 0.0) or 1.0
    return {
        "steps": there[edges][held].tolist(),
        "last": last,
        "lowest": LOWEST_EXPONENT,
        "most": most if len(held) else 0,
        "shares": packed(_shades(shares, most), "u1"),
        "ridges": _ridges(shares, negative if signed else None),
    }


def _ridges(shares: Shares, negative: Shares | None) -> dict[str, Any]:
    """Some of the columns, from bin `low` on: the shares above zero and below, and what is in no bin.

    Where signs were not counted, `negative` is missing and `positive` is of all.
    """
    columns = np.unique(np.linspace(0, max(len(shares) - 1, 0), min(MOST_RIDGES, len(shares))).round().astype("<i8"))
    whole = shares[columns]
    below = np.zeros_like(whole) if negative is None else negative[columns]
    above = whole - below
    most = (float(max(above.max(), below.max())) if len(columns) else 0.0) or 1.0
    seen = np.flatnonzero((np.maximum(above, below) > most * _HARDLY_ANY).any(axis=0))
    bins = slice(max(int(seen[0]) - 1, 0), int(seen[-1]) + 2) if len(seen) else slice(0, 0)
    sides = {"positive": above} if negative is None else {"positive": above, "negative": below}
    return {
        "columns": columns.tolist(),
        "low": bins.start,
        "most": most,
        "rest": np.clip(1 - whole.sum(axis=1), 0, 1).round(6).tolist(),
        **{name: packed(_shades(side[:, bins], most), "u1") for name, side in sides.items()},
    }


def _shades(shares: Shares, most: float) -> Shares:
    """A color has 256 shades: the root keeps small shares apart, and what is there at all is at least 1."""
    return np.where(shares > 0, np.maximum(np.round(255 * np.sqrt(shares / most)), 1), 0)
