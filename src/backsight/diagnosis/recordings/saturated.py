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
from backsight.tape.ops import op_name

FLAT = 0.01
"""The mean slope, as a part of the steepest, that is too little."""


@rule("BS305")
def saturated(recording: Recording) -> Iterator[Finding]:
    """The mean slope has been below a hundredth of the steepest for ten steps up to the end."""
    for module, rows, slope in saturations(recording):
        yield _finding(module.label, rows, slope)
    for kind, module, rows in _called(recording):
        slope = _slope(kind, rows)
        since = rows.lasting(slope < FLAT)
        if since is not None:
            here = rows["step"] >= since
            yield _finding(f"The {kind.lower()} before {module.label}", rows.during(since), slope[here])


def _finding(name: str, rows: Rows, slope: NDArray[np.float64]) -> Finding:
    steps = counted(len(np.unique(rows["step"])), "recorded step")
    least, greatest = rows["min"][-1], rows["max"][-1]
    between = f"are all {least:.3g}" if least == greatest else f"lie between {least:.3g} and {greatest:.3g}"
    return warning(
        "BS305",
        f"{name} has been saturated since step {rows['step'][0]}.",
        (
            f"Its {int(rows['count'][-1]):,} outputs {between}, where it is flat: its mean slope was "
            f"{slope[-1]:.2%} of the maximum in the last step, and below {FLAT:.0%} in each of the last {steps}.",
            "Backward multiplies gradients by that slope.",
        ),
        "Start with smaller weights (torch.nn.init.xavier_normal_), scale the inputs, add a normalization layer "
        "before it, or lower the learning rate.",
    )


def _called(recording: Recording) -> Iterator[tuple[str, Module, Rows]]:
    """Yield the functions whose results modules are given, as the graph of the run has it: `torch.tanh` called by hand.

    What a function returns is recorded as the input of the module that takes it.
    """
    graph = recording.graph
    if graph is None or not graph.modules:
        return
    columns = graph.columns
    ops = [op_name(graph.types[each].name) for each in columns.type.tolist()]
    for module in recording.modules.values():
        given = recording.inputs(module) if module.is_leaf and module.trains else []
        if len(given) != 1:
            continue
        nodes = [k for k, name in enumerate(graph.modules) if name == module.name]
        sources = {j for k in nodes for j in columns.inputs[columns.start[k] : columns.start[k + 1]].tolist()}
        outside = {j for j in sources if j not in nodes and j not in graph.leaf_at}
        made = {ops[j] for j in outside if recording.modules.get(graph.modules[j] or "", module).type not in _KINDS}
        if len(outside) == 1 and made <= _KINDS and made:
            yield made.pop(), module, given[0]


_KINDS = {"Tanh", "Sigmoid"}


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
    """Return the mean slope of an activation by row, as a part of the steepest; None for another module."""
    return _slope(module.type, rows) if module.type in _KINDS else None


def _slope(kind: str, rows: Rows) -> NDArray[np.float64]:
    """Return the mean slope of tanh or the sigmoid where it returned these rows: it follows from mean and variance.

    The slope of tanh is 1 - y², that of the sigmoid y(1 - y), which is at most 1/4.
    """
    n = np.maximum(rows["count"] - rows["nans"] - rows["infs"], 1)
    square: NDArray[np.float64] = rows["m2"] / n + rows["mean"] ** 2
    return np.maximum(1 - square, 0) if kind == "Tanh" else np.maximum(4 * (rows["mean"] - square), 0)


def _is_last(recording: Recording, module: Module) -> bool:
    """Whether no module with parameters of its own comes after it in its model."""
    here = recording.order.get(module.name, -1)
    after = (
        recording.modules[name]
        for name, place in recording.order.items()
        if place > here and name in recording.modules and recording.modules[name].root == module.root
    )
    return not any(other.trains and other.is_leaf for other in after)
