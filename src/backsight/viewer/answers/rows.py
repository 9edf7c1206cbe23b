"""The rows of a tensor as they were recorded, and the tags of steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from backsight.runs import Run
from backsight.viewer.packing import packed, plain
from backsight.viewer.question import Answer, Asked, question

MOST_ROWS = 400

_COLUMNS = ("mean", "std", "min", "max", "l2", "zero_fraction", "nans", "infs", "count")


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
    """If wanted `columns`: each tag that is a number, as a line over the steps; the others by the step they change."""
    numbers: dict[str, dict[int, float]] = {}
    words: dict[str, list[list[Any]]] = {}
    for mark in run.marks:
        for name, value in mark.tags.items():
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                numbers.setdefault(name, {})[mark.step] = float(value)
            elif name not in words or words[name][-1][1] != plain(value):
                words.setdefault(name, []).append([mark.step, plain(value)])
    return {"lines": {name: _line(held, asked.columns(600)) for name, held in numbers.items()}, "words": words}


def _line(held: dict[int, float], columns: int) -> Answer:
    steps = np.array(list(held), "<i8")
    values = np.array(list(held.values()), "<f8")
    if len(steps) > columns:
        starts = np.linspace(0, len(steps), columns, endpoint=False).astype("<i8")
        with np.errstate(invalid="ignore"):
            values = np.add.reduceat(values, starts) / np.diff(np.append(starts, len(steps)))
        steps = steps[starts]
    return {"steps": steps.tolist(), "values": packed(values, "f4"), "last": plain(list(held.values())[-1])}
