"""BS304, BS308: outputs that say nothing, and the innermost module that is to blame, not those that only pass it on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch

from backsight.diagnosis.finding import Finding
from backsight.diagnosis.recordings.recording import Module, Recording
from backsight.diagnosis.recordings.registry import rule
from backsight.diagnosis.recordings.rows import Mask, Rows
from backsight.diagnosis.recordings.saturated import saturations
from backsight.diagnosis.wording import counted, warning

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
