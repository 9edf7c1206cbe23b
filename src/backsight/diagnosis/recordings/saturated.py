"""BS305: a sigmoid or tanh is driven to its bounds, where it has no slope."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from backsight.diagnosis.finding import Finding
from backsight.diagnosis.recordings.modules import Module
from backsight.diagnosis.recordings.recording import Recording
from backsight.diagnosis.recordings.registry import rule
from backsight.diagnosis.recordings.rows import Rows
from backsight.diagnosis.wording import counted

FLAT = 0.01
"""The mean slope, as a part of the steepest, that is too little."""


@rule("BS305")
def saturated(recording: Recording) -> Iterator[Finding]:
    """The mean slope has been a hundredth of the steepest for ten steps up to the end.

    The last module of a model is left out: a classifier's sigmoid that is sure of itself is as it should be.
    """
    for module, rows in recording.outputs():
        slope = _slope(module, rows)
        if slope is None or (since := rows.lasting(slope < FLAT)) is None or _is_last(recording, module):
            continue
        held = rows.during(since)
        yield Finding(
            "BS305",
            "warning",
            f"{module.label} has been saturated since step {since}.",
            (
                f"The mean slope of its {int(held['count'][-1])} outputs was {slope[-1]:.1%} of the steepest in the last "
                f"step, and below {FLAT:.0%} in {counted(len(np.unique(held['step'])), 'recorded step')}, to the end; "
                f"{_ones(held)}.",
                "A gradient that goes back through it is multiplied by that.",
            ),
            "Start with smaller weights (torch.nn.init.xavier_normal_), scale the inputs, put a normalization layer before "
            "it, or lower the learning rate.",
        )


def _slope(module: Module, rows: Rows) -> NDArray[np.float64] | None:
    """Return the mean slope of an activation by row, as a part of the steepest: it follows from mean and variance.

    The slope of tanh is 1 - y², that of the sigmoid y(1 - y), which is at most 1/4.
    """
    n = np.maximum(rows["count"] - rows["nans"] - rows["infs"], 1)
    square = rows["m2"] / n + rows["mean"] ** 2
    if module.type == "Tanh":
        slope: NDArray[np.float64] = 1 - square
        return slope
    if module.type == "Sigmoid":
        slope = 4 * (rows["mean"] - square)
        return slope
    return None


def _ones(rows: Rows) -> str:
    return f"they lie between {rows['min'][-1]:.3g} and {rows['max'][-1]:.3g}, with a mean of {rows['mean'][-1]:.3g}"


def _is_last(recording: Recording, module: Module) -> bool:
    """Whether no module with parameters comes after it in its model."""
    after = (
        other
        for other in recording.modules.values()
        if other.root == module.root and recording.order[other.name] > recording.order[module.name]
    )
    return not any(other.trains and other.is_leaf for other in after)
