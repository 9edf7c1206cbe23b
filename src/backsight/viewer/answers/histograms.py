"""How the magnitudes of a tensor are spread, over the steps."""

from __future__ import annotations

import numpy as np

from backsight.runs import BINS, LOWEST_EXPONENT, Run
from backsight.viewer.packing import packed
from backsight.viewer.question import Answer, Asked, question

AT_ONCE = 1 << 16
"""Steps that are read at once, so that a long run takes time and no more memory."""


@question("histograms")
def histograms(run: Run, asked: Asked) -> Answer:
    """`tensor`, `kind`, and if wanted `first`, `last`, `rank`, `columns`: by column the share of each bin.

    A share is `most` times the square of its shade of 255.
    """
    tensor, kind, window = asked.word("tensor"), asked.word("kind"), asked.window() or slice(None)
    there = run.steps
    there = there[(there >= (window.start or 0)) & (there < (window.stop or 1 << 62))]
    edges = np.unique(np.linspace(0, len(there), min(asked.columns(300), len(there)), endpoint=False).astype("<i8"))
    counts, seen, last = np.zeros((len(edges), BINS)), np.zeros(len(edges)), 0
    for first in range(0, max(len(there), 1), AT_ONCE):
        part = there[first : first + AT_ONCE]
        steps = slice(int(part[0]), int(part[-1]) + 1) if len(part) else window
        found = run.histograms(tensor, kind=kind, steps=steps, rank=asked.rank)
        if not len(found):
            continue
        last = int(found.steps[-1])
        column = np.searchsorted(there[edges], found.steps, side="right") - 1
        starts = np.flatnonzero(np.diff(column, prepend=-1))
        counts[column[starts]] += np.add.reduceat(found.counts, starts, axis=0, dtype="<f8")
        seen[column[starts]] += np.add.reduceat(found.sampled, starts, dtype="<f8")
    held = np.flatnonzero(seen > 0)
    shares = counts[held] / np.maximum(seen[held], 1)[:, None]
    most = (float(shares.max()) if len(held) else 0.0) or 1.0
    # A colour has 256 shades: the root keeps small shares apart, and what is there at all is at least 1.
    shades = np.where(shares > 0, np.maximum(np.round(255 * np.sqrt(shares / most)), 1), 0)
    return {
        "steps": there[edges][held].tolist(),
        "last": last,
        "lowest": LOWEST_EXPONENT,
        "most": most if len(held) else 0,
        "shares": packed(shades, "u1"),
    }
