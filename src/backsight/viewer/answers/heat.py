"""One statistic of all tensors of a kind over the steps."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from backsight.runs import Run
from backsight.viewer.packing import packed
from backsight.viewer.question import Answer, Asked, question

MOST_CELLS = 1_000_000
"""Cells of a picture; of more tensors there are fewer columns."""


@question("heatmap")
def heatmap(run: Run, asked: Asked) -> Answer:
    """`stat`, `kind`, and if wanted `first`, `last`, `rank`, `columns`: a matrix, and what is not finite."""
    kinds = asked.words("kind")
    tensors = sum(each.kind in kinds for each in run.tensors) if kinds else len(run.tensors)
    columns = max(1, min(asked.columns(600), MOST_CELLS // max(tensors, 1)))
    stat = asked.word("stat")
    stats = [stat] if stat in run.metrics else [stat, "nans"]
    found, *nans = run.heatmaps(stats, kinds, steps=asked.window(), rank=asked.rank, columns=columns)
    return {
        "tensors": [list(key) for key in found.tensors],
        "stat": found.stat,
        "stretch": found.stretch,
        "first": int(found.steps[0]) if len(found.steps) else 0,
        "columns": len(found.steps),
        "values": packed(found.values, "f4"),
        "nonfinite": packed(_what_is_wrong(found.nonfinite, *(each.values for each in nans)), "u1"),
    }


def _what_is_wrong(nonfinite: NDArray[np.int64], nans: NDArray[np.float64] | float = 0.0) -> NDArray[np.int64]:
    """Return for each cell 1 for NaN, 2 for infinity, 3 for both, and 0 where all is finite."""
    count = np.nan_to_num(nans)
    return (count > 0) + 2 * (nonfinite > count)
