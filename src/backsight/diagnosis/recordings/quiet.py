"""Outputs that say nothing: the innermost module that is to blame, and not those that only pass it on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from backsight.diagnosis.recordings.modules import Module
from backsight.diagnosis.recordings.recording import Recording
from backsight.diagnosis.recordings.rows import Mask, Rows

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


def silences(recording: Recording, quiet: Quiet) -> list[Silence]:
    """Return the outputs that are quiet for STEADY steps up to the end, though what the module is given varies.

    A module that returns several tensors is quiet if all of them are. Modules that are given indices count if they have
    parameters of their own: the others make masks and positions.
    """
    outputs: dict[str, list[Rows]] = {}
    for module, rows in recording.outputs():
        outputs.setdefault(module.name, []).append(rows)
    found = []
    for name, held in outputs.items():
        module = recording.modules[name]
        begins = [rows.lasting(quiet(rows) & (rows["count"] > 1)) for rows in held]
        since = [begin for begin in begins if begin is not None]
        if len(since) == len(held) and _is_given_something(recording, module, max(since)):
            found.append(Silence(module, held[0], max(since)))
    return found


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


def _is_given_something(recording: Recording, module: Module, since: int) -> bool:
    inputs = [rows.during(since) for rows in recording.inputs(module)]
    inputs = [rows for rows in inputs if len(rows)]
    if not inputs:
        return bool(module.trains)
    return any(not is_constant(rows).any() for rows in inputs)
