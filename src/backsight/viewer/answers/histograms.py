"""How the magnitudes of a tensor are spread, over the steps."""

from __future__ import annotations

import numpy as np

from backsight.runs import BINS, LOWEST_EXPONENT, Run
from backsight.viewer.packing import packed
from backsight.viewer.question import Answer, Asked, question


@question("histograms")
def histograms(run: Run, asked: Asked) -> Answer:
    """`tensor`, `kind`, and if wanted `first`, `last`, `rank`, `columns`: by column the share of each bin.

    A share is `most` times the square of its shade of 255.
    """
    found = run.histograms(asked.word("tensor"), kind=asked.word("kind"), steps=asked.window(), rank=asked.rank)
    columns = asked.columns(300)
    if not len(found):
        none = np.zeros((0, BINS))
        return {"steps": [], "last": 0, "lowest": LOWEST_EXPONENT, "most": 0, "shares": packed(none, "u1")}
    starts = np.unique(np.linspace(0, len(found), min(columns, len(found)), endpoint=False).astype("<i8"))
    counts = np.add.reduceat(found.counts.astype("<f8"), starts, axis=0)
    seen = np.maximum(np.add.reduceat(found.sampled.astype("<f8"), starts), 1)
    shares = counts / seen[:, None]
    most = float(shares.max()) or 1.0
    # A colour has 256 shades: the root keeps small shares apart, and what is there at all is at least 1.
    shades = np.where(shares > 0, np.maximum(np.round(255 * np.sqrt(shares / most)), 1), 0)
    return {
        "steps": found.steps[starts].tolist(),
        "last": int(found.steps[-1]),
        "lowest": LOWEST_EXPONENT,
        "most": most,
        "shares": packed(shades, "u1"),
    }
