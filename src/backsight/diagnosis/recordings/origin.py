"""Where in a step NaN or infinity came from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from backsight.diagnosis.recordings.recording import Recording
from backsight.diagnosis.wording import counted

_MASKS = ("input", "output", "eval_input", "eval_output", "buffer", "variable")
"""Kinds in which infinities may be meant."""


@dataclass(frozen=True)
class Strange:
    """A row that is not finite; `is_mask` if it is infinities beside one other value, as in a mask added to scores."""

    tensor: str
    kind: str
    module: str | None
    call: int
    count: int
    nans: int
    infs: int
    is_mask: bool

    @property
    def what(self) -> str:
        return "NaN" if self.nans else "infinity"

    def shown(self) -> str:
        """`3 NaN and 1 infinite of 640 elements; output of module 4.`"""
        parts = [f"{number:,} {noun}" for number, noun in ((self.nans, "NaN"), (self.infs, "infinite")) if number]
        kind = _KINDS.get(self.kind, self.kind)
        where = f" of module {self.module}" if self.module else " of the model itself" if self.module == "" else ""
        call = f", call {self.call}" if self.call else ""
        return f"{' and '.join(parts)} of {counted(self.count, 'element')}; {kind}{where}{call}."


_KINDS = {
    "grad": "gradient of a weight",
    "output_grad": "gradient of an output",
    "averaged_grad": "averaged gradient of a weight",
    "state": "state of the optimizer",
}


def label(row: Strange) -> str:
    """Return what a sentence calls it."""
    prefix = {
        "grad": "The gradient of ",
        "output_grad": "The gradient of ",
        "averaged_grad": "The averaged gradient of ",
        "update": "The update of ",
    }
    return prefix.get(row.kind, "") + row.tensor


def origin(recording: Recording, step: int, bad: set[int]) -> Strange:
    """Return the first row of a step that was not finite, leaving out what is so in good steps too.

    Gradients of weights are not always recorded in the order in which they came about, so of these it is the one of the
    last module, where the backward pass comes first.
    """
    rows = _rows_at(recording, step)
    usual = _usual(recording, bad)
    new = [row for row in rows if not row.is_mask and (row.tensor, row.kind) not in usual] or rows
    if new[0].kind == "grad":
        gradients = [row for row in new if row.kind == "grad"]
        return max(gradients, key=lambda row: recording.order.get(row.module or "", -1))
    return new[0]


def surroundings(recording: Recording, row: Strange, step: int) -> Iterator[str]:
    """Yield what is known of the moment before."""
    if row.kind == "output" and (largest := _largest_input(recording, row.module or "", step)) is not None:
        yield f"The input of the module was finite (largest magnitude {largest:.2g}), so it arose inside."
    earlier = recording.steps[recording.steps < step]
    if row.kind in ("weight", "state", "buffer") and len(earlier) and step - int(earlier[-1]) > 1:
        yield f"The previous recorded step is {earlier[-1]}: it arose after that."


def norms_before(recording: Recording, step: int) -> list[float]:
    """Return the largest norm of a gradient in each of the three recorded steps before."""
    before = recording.steps[recording.steps < step][-3:]
    largest = dict.fromkeys(before.tolist(), -1.0)
    for rows in recording.rows("grad").values():
        near = np.isin(rows["step"], before)
        for at, norm in zip(rows["step"][near].tolist(), rows["l2"][near].tolist(), strict=True):
            largest[at] = max(largest[at], norm)
    return [norm for norm in largest.values() if norm >= 0]


def _rows_at(recording: Recording, step: int) -> list[Strange]:
    """Return the rows of a step that are not finite, in the order in which they came about."""
    held = recording.run.frame(steps=step, stat=("count", "nans", "infs", "min", "max"), as_="numpy")
    strange = np.flatnonzero(held["nans"] + held["infs"] > 0).tolist()
    may_be_mask = (held["nans"] == 0) & ~(held["min"] < held["max"])
    return [
        Strange(
            held["tensor"][k],
            held["kind"][k],
            held["module"][k],
            int(held["call"][k]),
            int(held["count"][k]),
            int(held["nans"][k]),
            int(held["infs"][k]),
            bool(may_be_mask[k]) and held["kind"][k] in _MASKS,
        )
        for k in strange
    ]


def _usual(recording: Recording, bad: set[int]) -> set[tuple[str, str]]:
    """Return the tensors that were not finite in steps where that did no harm."""
    return {
        (name, kind)
        for kind in recording.kinds
        for name, rows in recording.rows(kind).items()
        if not bad.issuperset(rows.nonfinite["step"].tolist())
    }


def _largest_input(recording: Recording, module: str, step: int) -> float | None:
    """Return the largest magnitude that a module was given in a step, if all was finite."""
    found = [0.0]
    for rows in recording.rows("input").values():
        if rows.tensor.module == module and rows.is_float:
            if step in rows.nonfinite["step"]:
                return None
            at = rows["step"] == step
            found += np.maximum(np.abs(rows["min"][at]), np.abs(rows["max"][at])).tolist()
    return max(found) or None
