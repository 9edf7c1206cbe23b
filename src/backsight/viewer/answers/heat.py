"""One statistic of all tensors of a kind over the steps."""

from __future__ import annotations

import numpy as np

from backsight.runs import Run
from backsight.viewer.packing import packed
from backsight.viewer.question import Answer, Asked, question


@question("heatmap")
def heatmap(run: Run, asked: Asked) -> Answer:
    """`stat`, `kind`, and if wanted `first`, `last`, `rank`, `columns`: a matrix, and where something is not finite."""
    found = run.heatmap(
        asked.word("stat"), asked.words("kind"), steps=asked.window(), rank=asked.rank, columns=asked.columns(600)
    )
    return {
        "tensors": [list(key) for key in found.tensors],
        "stat": found.stat,
        "stretch": found.stretch,
        "first": int(found.steps[0]) if len(found.steps) else 0,
        "columns": len(found.steps),
        "values": packed(found.values, "f4"),
        "nonfinite": packed(np.minimum(found.nonfinite, 255), "u1"),
    }
