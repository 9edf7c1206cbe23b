"""Rows to write, and what they should read as."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np

from backsight.runs import BINS, LOWEST_EXPONENT, STATISTICS, RunWarning, RunWriter


def measured(values: np.ndarray) -> np.ndarray:
    """The statistics of some numbers, by numpy: one row."""
    row = np.zeros(1, STATISTICS)
    finite = values[np.isfinite(values)].astype("f8")
    row["count"], row["zeros"] = values.size, (values == 0).sum()
    row["nans"], row["infs"] = np.isnan(values).sum(), np.isinf(values).sum()
    if finite.size:
        row["mean"], row["min"], row["max"] = finite.mean(), finite.min(), finite.max()
        row["m2"] = ((finite - finite.mean()) ** 2).sum()
    return row


def magnitudes(values: np.ndarray) -> np.ndarray:
    """The histogram of some numbers: one row."""
    held = np.abs(values[np.isfinite(values) & (values != 0)].astype("f8"))
    bins = np.clip(np.frexp(held)[1] - 1 - LOWEST_EXPONENT, 0, BINS - 1)
    return np.bincount(bins, minlength=BINS).astype("<u4")[None]


def rows_of(step: int, tensors: int) -> np.ndarray:
    """Rows that tell by their numbers which step and tensor they are of."""
    rows = np.zeros(tensors, STATISTICS)
    rows["count"] = 1000
    rows["mean"] = step + np.arange(tensors) / 1024
    rows["m2"] = (step + 1) / 3
    rows["min"], rows["max"] = step - 1, step + 2
    rows["zeros"] = (step * 7 + np.arange(tensors)) % 1000
    return rows


def write(path: Path, steps: int, tensors: int = 3, *, rank: int = 0, world: int = 1, close: bool = True) -> RunWriter:
    """Write a run of `rows_of`, flushed each step."""
    writer = RunWriter(path, rank=rank, world=world)
    ids = [writer.tensor(f"t{k}", "weight", f"m{k}", (1000,), "float32") for k in range(tensors)]
    for step in range(steps):
        writer.append(step, ids, rows_of(step, tensors))
        writer.flush()
    if close:
        writer.close()
    return writer


def wrong_numbers(run: object, tensors: int = 3) -> int:
    """How many rows of a run of `rows_of` hold any number that was not written."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RunWarning)
        held = run.frame(as_="numpy")
    count = 0
    for k, (step, name) in enumerate(zip(held["step"].tolist(), held["tensor"].tolist(), strict=True)):
        row = rows_of(step, tensors)[int(name[1:])]
        count += any(
            held[stat][k] != row[stat] for stat in ("count", "mean", "m2", "min", "max", "zeros", "nans", "infs")
        )
        count += held["module"][k] != f"m{name[1:]}" or held["shape"][k] != (1000,)
    return count
