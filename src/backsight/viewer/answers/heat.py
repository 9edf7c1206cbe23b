"""One statistic of all tensors of a kind over the steps."""

from __future__ import annotations

import numpy as np

from backsight.runs import Run
from backsight.viewer.packing import packed
from backsight.viewer.question import Answer, Asked, question

MOST_CELLS = 1_000_000
"""Cells of a picture; of more tensors there are fewer columns."""


@question("heatmap")
def heatmap(run: Run, asked: Asked) -> Answer:
    """`stat`, `kind`, and if wanted `first`, `last`, `rank`, `columns`: a matrix, and where something is not finite."""
    kinds = asked.words("kind")
    tensors = sum(each.kind in kinds for each in run.tensors) if kinds else len(run.tensors)
    columns = max(1, min(asked.columns(600), MOST_CELLS // max(tensors, 1)))
    found = run.heatmap(asked.word("stat"), kinds, steps=asked.window(), rank=asked.rank, columns=columns)
    return {
        "tensors": [list(key) for key in found.tensors],
        "stat": found.stat,
        "stretch": found.stretch,
        "first": int(found.steps[0]) if len(found.steps) else 0,
        "columns": len(found.steps),
        "values": packed(found.values, "f4"),
        "nonfinite": packed(np.minimum(found.nonfinite, 255), "u1"),
    }
