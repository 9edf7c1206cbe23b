"""The rows of a tensor as they were recorded, and the tags of steps."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from backsight.runs import Run, loss_names
from backsight.viewer.packing import packed, plain
from backsight.viewer.question import Answer, Asked, question

MOST_ROWS = 400

MOST_WORDS = 100
"""Changes of a tag that is no number."""

_COLUMNS = ("nans", "infs", "mean", "std", "min", "max", "l2", "zero_fraction", "count")


@question("rows")
def rows(run: Run, asked: Asked) -> Answer:
    """`tensor`, `kind`, `first`, `last`, and if wanted `rank`: the rows of these steps, the newest of too many."""
    held = run.frame(
        asked.word("tensor"), list(_COLUMNS), asked.word("kind"), asked.window(), rank=asked.rank, as_="numpy"
    )
    total = len(held["step"])
    kept = slice(max(0, total - MOST_ROWS), total)
    names = ["step", "call", *_COLUMNS, *(["ranks"] if "ranks" in held and asked.rank is None else [])]
    columns = [plain(held[name][kept].tolist()) for name in names]
    return {"columns": names, "rows": [list(row) for row in zip(*columns, strict=True)], "total": total}


@question("marks")
def marks(run: Run, asked: Asked) -> Answer:
    """If wanted `columns`, `rank`: each number of a step as a line; the tags that are none where they change."""
    numbers, words = run.numbers(asked.rank), run.tags(asked.rank)[1]
    columns = asked.columns(600)
    return {
        "losses": loss_names(run, numbers),
        "lines": {name: numbers_line(steps, values, columns) for name, (steps, values) in numbers.items()},
        "words": {
            name: [[step, plain(value)] for step, value in changes[:MOST_WORDS]] for name, changes in words.items()
        },
    }


def numbers_line(steps: NDArray[np.int64], values: NDArray[np.float64], columns: int) -> Answer:
    """Return a line of at most so many points, each the mean of the steps that it is about."""
    last = float(values[-1])
    if len(steps) > columns:
        starts = np.linspace(0, len(steps), columns, endpoint=False).astype("<i8")
        with np.errstate(invalid="ignore", over="ignore"):
            values = np.add.reduceat(values, starts) / np.diff(np.append(starts, len(steps)))
        steps = steps[starts]
    return {"steps": steps.tolist(), "values": packed(values, "f4"), "last": plain(last)}
