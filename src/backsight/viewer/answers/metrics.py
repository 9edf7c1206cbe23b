"""Every number of a run that is about no tensor, over the steps; and when the steps were."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from backsight.runs import Run, loss_names
from backsight.viewer.answers.rows import MOST_WORDS, numbers_line
from backsight.viewer.packing import packed, plain
from backsight.viewer.question import Answer, Asked, question


@question("metrics")
def metrics(run: Run, asked: Asked) -> Answer:
    """If wanted `first`, `last`, `rank`, `columns`: each number as a line over steps; those that never change apart.

    `clock` tells when steps ended, in seconds since the first did, and `epoch` which epoch they were of.
    """
    columns, window = asked.columns(600), asked.window()
    lines, constants = {}, {}
    found = run.scalars(rank=asked.rank, columns=columns)
    losses, marked = loss_names(run, found), run.tags(asked.rank)[0]
    # A number of an optimizer is noted once, and again when it changes: alone, it holds for all steps so far.
    goes_on = any(len(each) > 1 for each in found.values())
    once = set(found).difference(losses, marked) if goes_on else set()
    for name, each in found.items():
        if (len(each) > 1 or (name in once and not each.unit)) and (each.values == each.values[0]).all():
            constants[name] = plain(float(each.values[0]))
            continue
        there = _within(each.steps, window)
        if there.any():
            lines[name] = {**numbers_line(each.steps[there], each.values[there], columns), "unit": each.unit}
    steps, seconds = run.times()
    at = np.unique(np.linspace(0, max(len(steps) - 1, 0), min(columns, len(steps))).astype("<i8"))
    epoch = found.get("epoch")
    words = run.tags(asked.rank)[1]
    return {
        "lines": lines,
        "words": {name: [[step, plain(value)] for step, value in held[:MOST_WORDS]] for name, held in words.items()},
        "constants": constants,
        "losses": losses,
        "clock": {"steps": steps[at].tolist(), "seconds": packed(seconds[at] - seconds[:1], "f8")},
        "epoch": None if epoch is None else numbers_line(epoch.steps, epoch.values, columns),
    }


def _within(steps: NDArray[np.int64], window: slice | None) -> NDArray[np.bool_]:
    if window is None:
        return np.ones(len(steps), bool)
    there: NDArray[np.bool_] = steps >= (window.start or 0)
    return there if window.stop is None else there & (steps < window.stop)
