"""BS304, BS305, BS308: outputs that say nothing, or without a slope, and the module that is to blame."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from backsight.diagnosis.finding import Finding
from backsight.diagnosis.recordings.recording import Module, Recording, rule
from backsight.diagnosis.recordings.rows import Mask, Rows
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
    """Yield the functions whose results modules are given, as the graph has it: `torch.tanh` called by hand."""
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


# Outputs that say nothing, and the innermost module that is to blame, not those that only pass it on.


_HARDLY_ANY, _MOSTLY = 0.999, 0.75

Quiet = Callable[[Rows], Mask]
"""Whether each row says nothing."""


@dataclass(frozen=True)
class Silence:
    """An output that says nothing from a step on, whatever the module is given."""

    module: Module
    rows: Rows
    since: int

    @property
    def steps(self) -> int:
        return len(np.unique(self.rows.during(self.since)["step"]))


def silences(recording: Recording, quiet: Quiet, *, around: bool = False) -> list[Silence]:
    """Return the outputs that are quiet for STEADY steps up to the end, though what the module is given varies.

    A module that returns several tensors is quiet if all of them are. Modules that are given indices count if they have
    parameters of their own: the others make masks and positions.

    around: also of modules that hold others, if none of those is quiet.
    """
    outputs: dict[str, list[Rows]] = {}
    for module, rows in recording.outputs(around=around):
        outputs.setdefault(module.name, []).append(rows)
    found = []
    for name, held in outputs.items():
        module = recording.modules[name]
        begins = [rows.lasting(quiet(rows) & (rows["count"] > 1)) for rows in held]
        since = [begin for begin in begins if begin is not None]
        if len(since) == len(held) and _is_given_something(recording, module, max(since)):
            found.append(Silence(module, held[0], max(since)))
    names = [each.module.name for each in found]
    return [each for each in found if not any(_is_inside(name, each.module) for name in names)]


def _is_inside(name: str, module: Module) -> bool:
    return name != module.name and (not module.name or name.startswith(f"{module.name}."))


def is_constant(rows: Rows) -> Mask:
    """Whether all elements are finite and the same."""
    same: Mask = (rows["min"] == rows["max"]) & (rows["nans"] + rows["infs"] == 0)
    return same


def is_zero(rows: Rows) -> Mask:
    """Whether all elements are zero."""
    zero: Mask = rows["zeros"] == rows["count"]
    return zero


def is_dying(rows: Rows) -> Mask:
    """Whether at most one element in a thousand is not zero, of an output that has none in three rows of four.

    The last units of a layer that has died come up in some batches, and save nothing.
    """
    hardly: Mask = rows["zeros"] >= _HARDLY_ANY * rows["count"]
    return hardly if hardly.any() and is_zero(rows)[hardly].mean() >= _MOSTLY else is_zero(rows)


def given(recording: Recording, module: Module) -> str:
    """`, though it was given values from -3.1 to -0.2`: its last input; nothing if that is not known."""
    for rows in recording.inputs(module):
        if not is_constant(rows)[-1]:
            return f", although its input ranged from {rows['min'][-1]:.4g} to {rows['max'][-1]:.4g}"
    return ""


def _negative(recording: Recording, module: Module) -> str:
    """Return that all an activation was given last is negative, which is why it returns zeros; nothing otherwise."""
    for rows in recording.inputs(module):
        if not module.trains and module.is_leaf and rows["max"][-1] < 0:
            low, high = rows["min"][-1], rows["max"][-1]
            return f", because its whole input is negative ({low:.4g} to {high:.4g} in the last step)"
    return ""


def _is_given_something(recording: Recording, module: Module, since: int) -> bool:
    inputs = [rows.during(since) for rows in recording.inputs(module)]
    inputs = [rows for rows in inputs if len(rows)]
    if not inputs:
        return bool(module.trains)
    return any(not is_constant(rows).any() for rows in inputs)


_OF_ACTIVATIONS = (
    "ReLU units die when all their inputs are negative: lower the learning rate, clip gradients, start with zero "
    "biases, or use LeakyReLU or GELU."
)
_OF_LAYERS = (
    "Check how its weights are initialized, whether they are trained, and whether weight decay shrank them to 0."
)


_IN_BETWEEN = "The modules inside it return other numbers: it is a function that it calls itself, such as F.relu."


@rule("BS304")
def dead_output(recording: Recording) -> Iterator[Finding]:
    """All of an output has been zero for ten steps up to the end, though the input of the module is not constant.

    Hardly any element in a few of these steps makes no difference.
    """
    for silence in silences(recording, is_dying, around=True):
        zeros, steps = _zero_steps(silence), silence.steps
        almost, no = ("", "no") if zeros == steps else ("almost ", "hardly any")
        but = "one of these steps" if steps - zeros == 1 else f"{steps - zeros} of these steps"
        yield warning(
            "BS304",
            f"{silence.module.label} has returned {almost}only zeros since step {silence.since}.",
            (
                f"All {int(silence.rows['count'][-1]):,} elements of {silence.rows.tensor.name} were 0 from step "
                f"{silence.since} to the end ({counted(steps, 'recorded step')})"
                f"{_negative(recording, silence.module) or given(recording, silence.module)}."
                f"{f' In {but}, a few were not.' * (zeros < steps)}",
                f"Layers before it get {no} gradient through it.",
                *(() if silence.module.is_leaf else (_IN_BETWEEN,)),
            ),
            _OF_LAYERS if silence.module.trains else _OF_ACTIVATIONS,
        )


def _zero_steps(silence: Silence) -> int:
    """Return in how many of its steps all of the output is zero."""
    rows = silence.rows.during(silence.since)
    steps = set(rows["step"].tolist())
    return len(steps - set(rows["step"][~is_zero(rows)].tolist()))


@rule("BS308")
def constant_output(recording: Recording) -> Iterator[Finding]:
    """All elements of an output were the same number for ten steps up to the end, though the input varies.

    Where that number is 0, or the bound of a saturated activation, BS304 and BS305 say so. A module of the program's
    own that has no parameters, and never returned anything else, makes a mask or the like.
    """
    flat = {module.name for module, _, _ in saturations(recording)}
    for silence in silences(recording, is_constant):
        if silence.module.name in flat or is_zero(silence.rows)[-1] or _is_made_so(silence):
            continue
        yield warning(
            "BS308",
            f"{silence.module.label} has returned the same number everywhere since step {silence.since}.",
            (
                f"All {int(silence.rows['count'][-1]):,} elements of {silence.rows.tensor.name} were equal in each of "
                f"the last {counted(silence.steps, 'recorded step')} ({silence.rows['mean'][-1]:.4g} in the last)"
                f"{given(recording, silence.module)}.",
            ),
            "The network has collapsed here: check the scale of the module's input, its weights, and the learning "
            "rate.",
        )


def _is_made_so(silence: Silence) -> bool:
    module = silence.module
    own = module.is_leaf and not module.trains and not hasattr(torch.nn, module.type)
    return own and bool(is_constant(silence.rows).all())
