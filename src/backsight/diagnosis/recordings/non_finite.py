"""BS301: NaN or infinity came into the training."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from backsight.diagnosis.finding import Finding, Severity
from backsight.diagnosis.recordings.marks import is_lost, losses
from backsight.diagnosis.recordings.recording import Recording
from backsight.diagnosis.recordings.registry import rule
from backsight.diagnosis.recordings.rows import Mask, Rows
from backsight.diagnosis.wording import counted, listed

_KEPT = ("weight", "state", "update", "buffer")
"""What lasts from step to step: once it is not finite, nothing after it is."""

_CURES = {
    "input": "Look at the data of this step, and at what is done to it before the model gets it.",
    "output": "Look into the module: a division by 0, log(0), sqrt at 0, exp or half precision overflowing, or a row that "
    "is masked as a whole. Where its input had grown step by step, lower the learning rate, or clip gradients.",
    "grad": "The forward pass was finite, so look for a derivative that is not: sqrt or norm at 0, a power below 1 at 0, "
    "torch.where around a division by 0, or half precision overflowing. Clip gradients, or scale the loss less.",
    "weight": "Look at the step before: its update was too large or not finite. Lower the learning rate, or clip "
    "gradients.",
}


@dataclass(frozen=True)
class _Row:
    """A row that is not finite."""

    tensor: str
    kind: str
    module: str | None
    call: int
    count: int
    nans: int
    infs: int
    is_mask: bool
    """Whether it is infinities beside one other value, as in a mask that is added to scores."""


@rule("BS301")
def non_finite(recording: Recording) -> Iterator[Finding]:
    """The first tensor of the first step from which on it lasts; in passing, as under loss scaling, it is only a note."""
    if recording.run.first_nonfinite() is None:
        return
    bad = _bad_steps(recording)
    if not bad:
        return  # infinities in what modules are given and return: masks
    lost = bad["kept"] | bad["lost"] | _at_the_end(recording, bad["grad"])
    all_bad = set().union(*bad.values())
    if lost:
        yield _finding(recording, _start(recording, all_bad, min(lost)), all_bad, "error")
    elif "grad" not in recording.kinds and (ended := _at_the_end(recording, bad["passing"])):
        yield _finding(recording, _start(recording, all_bad, min(ended)), all_bad, "warning")
    elif all_bad:
        yield _finding(recording, min(all_bad), all_bad, "note")


def _bad_steps(recording: Recording) -> dict[str, set[int]]:
    """Return the steps with NaN, or with infinity where it cannot be meant, by what it was found in."""
    found: dict[str, set[int]] = {"kept": set(), "grad": set(), "passing": set(), "lost": set()}
    for kind in recording.kinds:
        what = "kept" if kind in _KEPT else "grad" if kind == "grad" else "passing"
        for rows in recording.rows(kind).values():
            found[what].update(rows.nonfinite["step"][_is_bad(kind, rows)].tolist())
    for series in losses(recording.run).values():
        if (since := is_lost(series)) is not None and any(found.values()):
            found["lost"].add(since)
    return found if any(found.values()) else {}


def _is_bad(kind: str, rows: Rows) -> Mask:
    held = rows.nonfinite
    bad: Mask = held["nans"] > 0
    if kind in ("grad", "state", "update") or (kind == "weight" and not _always_infinite(rows)):
        bad |= held["infs"] > 0
    return bad


def _always_infinite(rows: Rows) -> bool:
    """Whether a weight had its infinities from the beginning, as one that holds a mask does."""
    return bool(len(rows.nonfinite["step"]) and rows.nonfinite["step"][0] == rows.began)


def _at_the_end(recording: Recording, steps: set[int]) -> set[int]:
    """Return the last recorded step if it is among these."""
    return {int(recording.steps[-1])} & steps


def _start(recording: Recording, bad: set[int], step: int) -> int:
    """Return the first step of the unbroken stretch of bad steps around this one."""
    steps = recording.steps
    k = int(np.searchsorted(steps, step))
    while k > 0 and int(steps[k - 1]) in bad:
        k -= 1
    return int(steps[k])


def _finding(recording: Recording, step: int, bad: set[int], severity: Severity) -> Finding:
    strange = [row for row in _rows_at(recording, step) if not row.is_mask]
    usual = _usual(recording, bad)
    first = _origin(recording, [row for row in strange if (row.tensor, row.kind) not in usual] or strange)
    what = "NaN" if first.nans else "infinity"
    when = f"at step {step}" if severity != "note" else f"at step {step}, and it passed"
    return Finding(
        "BS301",
        severity,
        f"{_label(first)} came to hold {what} {when}.",
        tuple(_evidence(recording, first, step, bad, severity)),
        _cure(first.kind, severity),
    )


def _rows_at(recording: Recording, step: int) -> list[_Row]:
    """Return the rows of a step that are not finite, in the order in which they came about."""
    stats = ("count", "nans", "infs", "min", "max")
    held = recording.run.frame(steps=step, stat=stats, as_="numpy")
    kinds = ("input", "output", "eval_input", "eval_output", "buffer", "variable")
    return [
        _Row(
            held["tensor"][k],
            held["kind"][k],
            held["module"][k],
            int(held["call"][k]),
            int(held["count"][k]),
            int(held["nans"][k]),
            int(held["infs"][k]),
            not held["nans"][k] and held["kind"][k] in kinds and not held["min"][k] < held["max"][k],
        )
        for k in np.flatnonzero(held["nans"] + held["infs"] > 0).tolist()
    ]


def _usual(recording: Recording, bad: set[int]) -> set[tuple[str, str]]:
    """Return the tensors that were not finite in steps where that did no harm."""
    return {
        (name, kind)
        for kind in recording.kinds
        for name, rows in recording.rows(kind).items()
        if not bad.issuperset(rows.nonfinite["step"].tolist())
    }


def _origin(recording: Recording, rows: list[_Row]) -> _Row:
    """Return the first row; where only gradients are concerned, that of the last module, where backward came first."""
    if all(row.kind in ("grad", *_KEPT) for row in rows):
        gradients = [row for row in rows if row.kind == "grad"]
        if gradients and rows[0].kind == "grad":
            return max(gradients, key=lambda row: recording.order.get(row.module or "", -1))
    return rows[0]


def _label(row: _Row) -> str:
    return {"grad": "The gradient of ", "update": "The update of "}.get(row.kind, "") + row.tensor


def _evidence(recording: Recording, row: _Row, step: int, bad: set[int], severity: Severity) -> Iterator[str]:
    parts = [f"{number} {noun}" for number, noun in ((row.nans, "NaN"), (row.infs, "infinite")) if number]
    call = f" of call {row.call}" if row.call else ""
    yield f"{' and '.join(parts)} of {counted(row.count, 'element')}{call}; {row.kind}, {_place(row)}."
    if row.kind == "output" and (largest := _largest_input(recording, row.module or "", step)) is not None:
        yield f"What the module was given was finite (largest magnitude {largest:.2g}), so it was born inside."
    if before := _norms_before(recording, step):
        yield f"Largest norm of a gradient in the steps before: {', '.join(f'{norm:.2g}' for norm in before)}."
    if severity == "note":
        yield f"So were {counted(len(bad), 'step')}; the weights stayed finite, as when a gradient scaler skips a step."
    elif spoilt := _spoilt(recording):
        yield f"In the end {'is' if len(spoilt) == 1 else 'are'} not finite: {listed(spoilt, 4)}."


def _place(row: _Row) -> str:
    return f"module {row.module}" if row.module else "of the model itself" if row.module == "" else "of no module"


def _largest_input(recording: Recording, module: str, step: int) -> float | None:
    found = []
    for rows in recording.inputs(module):
        if (rows.nonfinite["step"] == step).any():
            return None
        at = rows["step"] == step
        found += np.maximum(np.abs(rows["min"][at]), np.abs(rows["max"][at])).tolist()
    return max(found, default=None)


def _norms_before(recording: Recording, step: int) -> list[float]:
    """Return the largest norm of a gradient in each of the three steps before."""
    before = recording.steps[recording.steps < step][-3:].tolist()
    held = [rows.last_calls for rows in recording.rows("grad").values()]
    found = [max((float(n) for rows in held for n in rows["l2"][rows["step"] == at]), default=-1.0) for at in before]
    return [norm for norm in found if norm >= 0]


def _spoilt(recording: Recording) -> list[str]:
    last = int(recording.steps[-1])
    return [
        name
        for name, rows in recording.rows("weight").items()
        if len(rows.nonfinite["step"]) and rows.nonfinite["step"][-1] == last
    ]


def _cure(kind: str, severity: Severity) -> str:
    if severity == "note":
        return "Nothing to do where the loss is scaled; else look at the data of that step."
    return _CURES.get(kind.removeprefix("eval_"), _CURES["weight"])
