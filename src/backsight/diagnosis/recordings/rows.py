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


def read(run: Run, tensors: Sequence[Tensor], steps: int) -> Iterator[tuple[Tensor, Rows | None]]:
    """Read the rows of tensors of one kind, None of one without a row."""
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
            yield tensor, _rows(tensor, _chosen(columns, mine)) if len(mine) else None


def _read_long(run: Run, tensors: Sequence[Tensor]) -> Iterator[tuple[Tensor, Rows | None]]:
    """Read tensor by tensor, and of one that is finite at every step only what is looked at."""
    if not tensors:
        return
    recorded = run.steps
    seen = run.heatmap("count", tensors[0].kind, columns=1)
    finite = {name: not bad.any() for (name, _), bad in zip(seen.tensors, seen.nonfinite, strict=True)}
    stride = _stride(recorded)
    for tensor in tensors:
        if stride and finite.get(tensor.name):
            columns = _columns(run, tensor, slice(int(recorded[0]), int(recorded[-1]) + 1, stride))
            if len(columns["step"]) and columns["step"][0] == recorded[0]:
                yield tensor, _rows(tensor, columns)
                continue
        yield tensor, _part_by_part(run, tensor, recorded)


def _stride(recorded: NDArray[np.int64]) -> int | None:
    """Return a stride that takes MOST_STEPS of the steps, where they are evenly apart."""
    apart = int(recorded[1] - recorded[0])
    even = recorded[-1] - recorded[0] == apart * (len(recorded) - 1)
    return apart * -(-len(recorded) // MOST_STEPS) if even else None


def _part_by_part(run: Run, tensor: Tensor, recorded: NDArray[np.int64]) -> Rows | None:
    """Read a tensor twice, which steps it has and then those that are chosen of them: all at once would fill memory."""
    parts = [recorded[start : start + STEPS_AT_ONCE] for start in range(0, len(recorded), STEPS_AT_ONCE)]
    windows = [slice(int(part[0]), int(part[-1]) + 1) for part in parts]
    steps, strange = [], []
    for window in windows:
        columns = _columns(run, tensor, window)
        steps.append(_different(columns["step"]))
        strange.append(_chosen(columns, _is_strange(columns)))
    every = np.concatenate(steps)
    if not len(every):
        return None
    kept = _evenly(every)
    looked_at = [_taken(_columns(run, tensor, window), kept) for window in windows]
    return Rows(tensor, _joined(looked_at), _joined(strange), int(every[0]))


def _columns(run: Run, tensor: Tensor, steps: slice) -> Columns:
    """Return the rows of a tensor in the order of steps and calls."""
    held: Columns = run.frame(tensor=tensor.name, kind=tensor.kind, stat=_STATS, steps=steps, as_="numpy")
    order = np.lexsort((held["call"], held["step"]))
    return {name: held[name][order] for name in ("step", "call", *_STATS)}


def _rows(tensor: Tensor, columns: Columns) -> Rows:
    steps = _different(columns["step"])
    kept = _taken(columns, _evenly(steps)) if len(steps) > MOST_STEPS else columns
    return Rows(tensor, kept, _chosen(columns, _is_strange(columns)), int(steps[0]))


def _is_strange(columns: Columns) -> Mask:
    strange: Mask = columns["nans"] + columns["infs"] > 0
    return strange


def _different(steps: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return each of the steps, which are in order, once."""
    return steps[np.append(True, steps[1:] != steps[:-1])] if len(steps) else steps


def _evenly(steps: NDArray[np.int64]) -> NDArray[np.int64]:
    at = np.arange(len(steps)) if len(steps) <= MOST_STEPS else np.linspace(0, len(steps) - 1, MOST_STEPS)
    chosen: NDArray[np.int64] = steps[at.astype("<i8")]
    return chosen


def _taken(columns: Columns, steps: NDArray[np.int64]) -> Columns:
    """Return the rows of these steps."""
    return _chosen(columns, np.isin(columns["step"], steps))


def _joined(parts: list[Columns]) -> Columns:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _chosen(columns: Columns, which: NDArray[Any]) -> Columns:
    return {name: column[which] for name, column in columns.items()}
