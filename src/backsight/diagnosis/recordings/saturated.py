"""BS305: a sigmoid or tanh is driven to its bounds, where it has no slope."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from backsight.diagnosis.finding import Finding
from backsight.diagnosis.recordings.recording import Module, Recording
from backsight.diagnosis.recordings.registry import rule
from backsight.diagnosis.recordings.rows import Rows
from backsight.diagnosis.wording import counted, warning

FLAT = 0.01
"""The mean slope, as a part of the steepest, that is too little."""


@rule("BS305")
def saturated(recording: Recording) -> Iterator[Finding]:
    """The mean slope has been below a hundredth of the steepest for ten steps up to the end."""
    for module, rows, slope in saturations(recording):
        steps = counted(len(np.unique(rows["step"])), "recorded step")
        least, greatest = rows["min"][-1], rows["max"][-1]
        between = f"are all {least:.3g}" if least == greatest else f"lie between {least:.3g} and {greatest:.3g}"
        yield warning(
            "BS305",
            f"{module.label} has been saturated since step {rows['step'][0]}.",
            (
                f"Its {int(rows['count'][-1]):,} outputs {between}, where it is flat: its mean slope was "
                f"{slope[-1]:.2%} of the maximum in the last step, and below {FLAT:.0%} in each of the last {steps}.",
                "Backward multiplies gradients by that slope.",
            ),
            "Start with smaller weights (torch.nn.init.xavier_normal_), scale the inputs, add a normalization layer "
            "before it, or lower the learning rate.",
        )


def saturations(recording: Recording) -> Iterator[tuple[Module, Rows, NDArray[np.float64]]]:
    """Yield the saturated activations, with their rows and slopes since.

    The last module of a model is left out: a classifier's sigmoid that is sure of itself is as it should be.
    """
    for module, rows in recording.outputs():
        slope = slope_of(module, rows)
        if slope is None or _is_last(recording, module):
            continue
        since = rows.lasting(slope < FLAT)
        if since is not None:
            yield module, rows.during(since), slope[rows["step"] >= since]


def slope_of(module: Module, rows: Rows) -> NDArray[np.float64] | None:
    """Return the mean slope of an activation by row, as a part of the steepest: it follows from mean and variance.

    The slope of tanh is 1 - y², that of the sigmoid y(1 - y), which is at most 1/4.
    """
    n = np.maximum(rows["count"] - rows["nans"] - rows["infs"], 1)
    square: NDArray[np.float64] = rows["m2"] / n + rows["mean"] ** 2
    if module.type == "Tanh":
        return np.maximum(1 - square, 0)
    if module.type == "Sigmoid":
        return np.maximum(4 * (rows["mean"] - square), 0)
    return None


def _is_last(recording: Recording, module: Module) -> bool:
    """Whether no module with parameters of its own comes after it in its model."""
    here = recording.order.get(module.name, -1)
    after = (
        recording.modules[name]
        for name, place in recording.order.items()
        if place > here and name in recording.modules and recording.modules[name].root == module.root
    )
    return not any(other.trains and other.is_leaf for other in after)
