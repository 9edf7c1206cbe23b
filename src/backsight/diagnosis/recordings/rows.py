"""The rows of one tensor of a recording, step by step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backsight.runs import Run, Tensor

MOST_STEPS = 2000
"""Steps of a tensor that are looked at: of more, so many are chosen evenly."""

MOST_ROWS = 500_000
"""Rows that are read at once."""

LONG = 20 * MOST_STEPS
"""Steps of a run beyond which tensors that are finite throughout are not read row by row."""

STEPS_AT_ONCE = 1 << 16
"""Steps of one tensor of a long run that are read at once."""

STEADY = 10
"""Recorded steps that a state has to last for before it is worth a word."""

_STATS = ("count", "mean", "m2", "min", "max", "l2", "zeros", "nans", "infs")

Mask = NDArray[np.bool_]
Columns = dict[str, NDArray[Any]]


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of one tensor in the order of steps and calls, as columns: `step`, `call` and statistics.

    nonfinite: all of its rows with NaN or infinity, those of steps that were not chosen too.
    began: the step of its first row.
    """

    tensor: Tensor
    columns: Columns
    nonfinite: Columns
    began: int

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.columns[name]

    def __len__(self) -> int:
        return len(self.columns["step"])

    @property
    def is_float(self) -> bool:
        return (self.tensor.dtype or "").startswith(("float", "bfloat"))

    @property
    def is_matrix(self) -> bool:
        """Whether it has the shape of a layer's weight, rather than of a bias or a norm's scale."""
        return len(self.tensor.shape or ()) >= 2

    @cached_property
    def last_calls(self) -> Rows:
        """Only the last call of each step: of a gradient, what the optimizer got."""
        step = self["step"]
        last = np.append(step[1:] != step[:-1], True) if len(step) else np.zeros(0, bool)
        return Rows(self.tensor, _chosen(self.columns, last), self.nonfinite, self.began)

    def lasting(self, holds: Mask) -> int | None:
        """Return the step from which on `holds` is true of every row, to the end; None if not for STEADY steps."""
        steps = self["step"]
        broken = steps[~holds]
        last = steps[steps > broken[-1]] if len(broken) else steps
        return int(last[0]) if len(np.unique(last)) >= STEADY else None

    def during(self, first: int) -> Rows:
        """Only the rows from this step on."""
        return Rows(self.tensor, _chosen(self.columns, self["step"] >= first), self.nonfinite, self.began)


def read(run: Run, tensors: Sequence[Tensor], steps: int) -> Iterator[Rows]:
    """Read the rows of tensors of one kind; those without a row are left out."""
    if steps > LONG:
        yield from _read_long(run, tensors)
        return
    at_once = max(1, MOST_ROWS // max(steps, 1))
    for start in range(0, len(tensors), at_once):
        asked = {tensor.name: tensor for tensor in tensors[start : start + at_once]}
        kind = tensors[start].kind
        held: Columns = run.frame(tensor=list(asked), kind=kind, stat=_STATS, as_="numpy")
        columns = {name: held[name] for name in ("step", "call", *_STATS)}
        number = {name: k for k, name in enumerate(asked)}
        which = np.array([number[name] for name in held["tensor"]], "<i8")
        by_tensor = np.lexsort((columns["call"], columns["step"], which))
        bounds = np.searchsorted(which[by_tensor], np.arange(len(asked) + 1))
        for k, tensor in enumerate(asked.values()):
            mine = by_tensor[bounds[k] : bounds[k + 1]]
            if len(mine):
                yield _rows(tensor, _chosen(columns, mine))


def _read_long(run: Run, tensors: Sequence[Tensor]) -> Iterator[Rows]:
    """Read tensor by tensor and part by part: a million steps take neither the memory nor, mostly, the time."""
    if not tensors:
        return
    recorded = run.steps
    seen = run.heatmap("count", tensors[0].kind, columns=1)
    finite = {name: not bad.any() for (name, _), bad in zip(seen.tensors, seen.nonfinite, strict=True)}
    stride = _stride(recorded)
    for tensor in tensors:
        columns = _parts(run, tensor, recorded, stride) if stride and finite.get(tensor.name) else None
        if columns is None or not len(columns["step"]) or columns["step"][0] != recorded[0]:
            columns = _parts(run, tensor, recorded, 1)  # what is not at every step, or not finite
        if len(columns["step"]):
            yield _rows(tensor, columns)


def _stride(recorded: NDArray[np.int64]) -> int | None:
    """Return a stride that takes MOST_STEPS of the steps, where they are evenly apart."""
    apart = int(recorded[1] - recorded[0])
    even = recorded[-1] - recorded[0] == apart * (len(recorded) - 1)
    return apart * -(-len(recorded) // MOST_STEPS) if even else None


def _parts(run: Run, tensor: Tensor, recorded: NDArray[np.int64], stride: int) -> Columns:
    """Return the rows of a tensor at each of these strides from the first step on, in the order of steps and calls."""
    parts: list[Columns] = []
    for start in range(0, len(recorded), STEPS_AT_ONCE):
        part, origin = recorded[start : start + STEPS_AT_ONCE], int(recorded[0])
        first = origin - (origin - int(part[0])) // stride * stride
        held: Columns = run.frame(
            tensor=tensor.name,
            kind=tensor.kind,
            stat=_STATS,
            steps=slice(first, int(part[-1]) + 1, stride),
            as_="numpy",
        )
        order = np.lexsort((held["call"], held["step"]))
        parts.append({name: held[name][order] for name in ("step", "call", *_STATS)})
    return {name: np.concatenate([each[name] for each in parts]) for name in parts[0]}


def _rows(tensor: Tensor, columns: Columns) -> Rows:
    strange = _chosen(columns, columns["nans"] + columns["infs"] > 0)
    steps = np.unique(columns["step"])
    if len(steps) > MOST_STEPS:
        kept = steps[np.linspace(0, len(steps) - 1, MOST_STEPS).astype("<i8")]
        columns = _chosen(columns, np.isin(columns["step"], kept))
    return Rows(tensor, columns, strange, int(steps[0]))


def _chosen(columns: Columns, which: NDArray[Any]) -> Columns:
    return {name: column[which] for name, column in columns.items()}
