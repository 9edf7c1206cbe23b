"""The numbers of a run that are about no tensor: one a step, of the tags and of what the rows tell."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from backsight.runs.run import Run

GRAD_NORM, UPDATE_RATIO, STEP_TIME = "grad_norm", "update_ratio", "step_time"

UNITS = {STEP_TIME: "s", "memory": "B", "device_memory_peak": "B"}


@dataclass(frozen=True, eq=False, repr=False)
class Scalar:
    """A number over the steps.

    steps, values: [n], in order; a step that is not there has no such number.
    unit: "s", "B" for bytes, or nothing.
    """

    name: str
    steps: NDArray[np.int64]
    values: NDArray[np.float64]
    unit: str = ""

    def __len__(self) -> int:
        return len(self.steps)

    def __repr__(self) -> str:
        last = f", {self.values[-1]:.4g} at step {self.steps[-1]:,}" if len(self) else ""
        return f"<Scalar {self.name}, {len(self):,} steps{last}>"


def scalars(run: Run, rank: int | None, columns: int) -> dict[str, Scalar]:
    """Return each number of a run by name, the losses first; what was tagged is not derived."""
    tagged = {name: Scalar(name, *held, UNITS.get(name, "")) for name, held in run.numbers(rank).items()}
    losses = loss_names(run, tagged)
    found = {name: tagged[name] for name in (*losses, *tagged)}
    derived = (_grad_norm(run, rank, columns), _update_ratio(run, rank, columns), _step_time(run))
    found |= {each.name: each for each in derived if len(each) and each.name not in found}
    return found


def loss_names(run: Run, tagged: Iterable[str]) -> list[str]:
    """Return which tags are losses: what `backward()` was called on, and what goes by the name of one."""
    said = {str(event.details.get("name")) for event in run.events if event.event == "loss"}
    return [name for name in tagged if name in said or "loss" in name.lower()]


def _grad_norm(run: Run, rank: int | None, columns: int) -> Scalar:
    """The norm of all gradients together, as the last backward pass of the step left them: before any clipping.

    Under DDP it is that of the averaged gradients, as the optimizer is given them, unless one rank is asked for.
    """
    averaged = rank is None and any(each.kind == "averaged_grad" for each in run.tensors)
    steps, squares = _squares(run, "averaged_grad" if averaged else "grad", rank, columns)
    return _known(GRAD_NORM, steps, np.sqrt(squares))


def _update_ratio(run: Run, rank: int | None, columns: int) -> Scalar:
    """The norm of all updates over that of the weights; where updates were recorded."""
    steps, updates = _squares(run, "update", rank, columns)
    if not len(steps):
        return Scalar(UPDATE_RATIO, steps, updates)
    moved = {each.name for each in run.tensors if each.kind == "update"}
    held = _squares(run, "weight", rank, columns, moved)
    _, here, there = np.intersect1d(steps, held[0], return_indices=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.sqrt(updates[here] / held[1][there])
    return _known(UPDATE_RATIO, steps[here], ratio)


def _squares(
    run: Run, kind: str, rank: int | None, columns: int, names: set[str] | None = None
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the sum of the squares of all tensors of a kind, by step; NaN where one of them is not finite.

    Of several steps in one column it is their mean. Where every rank has the same weights, gradients are those of the
    lowest rank, from before they are averaged.
    """
    chosen = [each for each in run.tensors if each.kind == kind and (names is None or each.name in names)]
    if not chosen:
        return np.empty(0, "<i8"), np.empty(0)
    if rank is None and run.world > 1 and any(each.replicated for each in run.tensors):
        rank = run.ranks[0]
    found = run.heatmap("l2", kind, tensor=[each.name for each in chosen], rank=rank, columns=columns)
    squares = np.nansum(np.square(found.values), axis=0)
    bad = found.nonfinite.any(axis=0) & (np.isnan(found.values).all(axis=0) | (found.stretch == 1))
    squares[bad] = np.nan
    there = ~np.isnan(found.values).all(axis=0) | bad
    return found.steps[there], squares[there]


def _step_time(run: Run) -> Scalar:
    """Seconds from the end of one recorded step to that of the next, for each of the steps between them."""
    steps, ended = run.times()
    if len(steps) < 2:
        return Scalar(STEP_TIME, steps[:0], ended[:0], "s")
    return Scalar(STEP_TIME, steps[1:], np.maximum(np.diff(ended), 0) / np.diff(steps), "s")


def _known(name: str, steps: NDArray[np.int64], values: NDArray[np.float64]) -> Scalar:
    return Scalar(name, steps, values, UNITS.get(name, ""))
