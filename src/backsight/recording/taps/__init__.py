"""Taps: where a recording takes its tensors from. Each attaches PyTorch's own hooks, and removes them.

Here is which taps there are, and those that were asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from backsight.recording.notebook import Notebook
from backsight.recording.observed import Observed
from backsight.recording.taps.calls import CallTap
from backsight.recording.taps.gradients import AveragedTap, GradientTap
from backsight.recording.taps.optimizer_state import StateTap
from backsight.recording.taps.tap import Tap
from backsight.recording.taps.updates import UpdateTap
from backsight.recording.taps.variables import VariableTap
from backsight.recording.taps.weights import WeightTap

__all__ = ["METRIC_KINDS", "MORE_TAPS", "TAPS", "Tap", "make_taps"]


TAPS = ("input", "output", "weight", "grad", "state")
"""What is recorded if nothing else is asked for."""

MORE_TAPS = ("output_grad", "update")
"""What may be asked for beside it: more hooks, or more memory."""

METRIC_KINDS = (*TAPS, *MORE_TAPS, "averaged_grad", "buffer", "variable", "eval_input", "eval_output")
"""The kinds of rows, for which there can be metrics."""


def make_taps(
    notebook: Notebook,
    observed: Observed,
    chosen: Collection[str],
    variables: Mapping[str, Callable[[], Any] | None],
) -> list[Tap]:
    """Return the taps, in the order in which they are asked at the end of a step."""
    weights = WeightTap(notebook, observed) if "weight" in chosen else None
    of_calls = {tap for tap in chosen if tap in ("input", "output", "output_grad")}
    made: list[Tap] = []
    if of_calls or weights is not None:
        made.append(CallTap(notebook, observed, of_calls, weights))
    if weights is not None:
        made.append(weights)
    if "grad" in chosen:
        made += [GradientTap(notebook, observed), AveragedTap(notebook, observed)]
    if variables:
        made.append(VariableTap(notebook, variables))
    if "update" in chosen:
        made.append(UpdateTap(notebook, observed))
    if "state" in chosen:
        made.append(StateTap(notebook, observed))
    return made
