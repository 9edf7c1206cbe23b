"""How gradients change from layer to layer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from backsight.diagnosis.recordings.recording import Recording
from backsight.diagnosis.recordings.rows import STEADY, Rows

LAYERS = 5
"""Layers that it takes to speak of depth."""

FALL = 4.0
"""Powers of ten between the first and the last layer that are too many; healthy networks stay within two."""


@dataclass(frozen=True)
class Depth:
    """The norms of the gradients of a model's layers, in the order of the forward pass: medians over the steps.

    `per_layer` is the factor by which the norm changes from one layer to the next towards the input: the median over all
    pairs of layers (Theil and Sen), so that single layers that are built or fed otherwise do not matter.
    """

    names: tuple[str, ...]
    norms: NDArray[np.float64]
    steps: int
    per_layer: float

    @property
    def powers(self) -> float:
        """Powers of ten by which gradients change from the last layer to the first."""
        return float(np.log10(self.per_layer) * (len(self.names) - 1))

    def shown(self) -> str:
        """`0.weight 1.2e-09, 4.weight 3e-06, 8.weight 0.0041`: the first, the middle and the last."""
        picked = dict.fromkeys((0, len(self.names) // 2, len(self.names) - 1))
        return ", ".join(f"{self.names[k]} {self.norms[k]:.2g}" for k in picked)


def depths(recording: Recording) -> Iterator[Depth]:
    """Yield what there is to say of each model that has layers enough and was trained for steps enough."""
    by_model: dict[str, list[Rows]] = {}
    for rows in recording.rows("grad").values():
        if rows.is_matrix and rows.tensor.module is not None:
            by_model.setdefault(recording.module(rows).root, []).append(rows.last_calls)
    for layers in by_model.values():
        layers.sort(key=lambda rows: recording.order.get(rows.tensor.module or "", len(recording.order)))
        held = [(rows.tensor.name, *_median(rows)) for rows in layers]
        known = [(name, norm, steps) for name, norm, steps in held if steps >= STEADY]
        if len(known) >= LAYERS:
            names, norms, steps = zip(*known, strict=True)
            yield Depth(names, np.array(norms), max(steps), _per_layer(np.log(norms)))


def _median(rows: Rows) -> tuple[float, int]:
    """Return the median norm over the steps with a gradient that is finite and not zero, and how many these were."""
    norms = rows["l2"][(rows["nans"] + rows["infs"] == 0) & (rows["l2"] > 0)]
    return (float(np.median(norms)), len(norms)) if len(norms) else (0.0, 0)


def _per_layer(logs: NDArray[np.float64]) -> float:
    first, second = np.triu_indices(len(logs), 1)
    return float(np.exp(np.median((logs[first] - logs[second]) / (second - first))))
