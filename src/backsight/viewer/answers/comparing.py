"""Two runs: the first step and tensor at which they part, to the bit and then by more than rounding."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backsight.runs import STATISTICS, TRACE, Run
from backsight.viewer.packing import plain
from backsight.viewer.question import Answer, Asked

WINDOW = 256
"""Steps that are read at once."""

TOLERANCE = 1e-4
"""Relative difference of norms beyond which two runs are said to part by more than rounding."""

_NUMBERS = tuple(STATISTICS.names or ())


def compared(one: Run, other: Run, asked: Asked) -> Answer:
    """`with`: the other run; if wanted `tolerance`, in millionths. Steps that both have are compared in order."""
    tolerance = (asked.number("tolerance", round(TOLERANCE * 1e6), 0, 10**6) or 0) / 1e6
    steps = np.intersect1d(one.steps, other.steps)
    keys = {(each.name, each.kind) for each in one.tensors}
    theirs = {(each.name, each.kind) for each in other.tensors}
    exact, near = _partings(one, other, steps, tolerance)
    return {
        "steps": {"both": len(steps), "one": len(one.steps), "other": len(other.steps)},
        "tensors": {
            "both": len(keys & theirs),
            "only_one": sorted(map(list, keys - theirs))[:100],
            "only_other": sorted(map(list, theirs - keys))[:100],
        },
        "settings": _settings(one, other),
        "exact": exact,
        "near": near,
        "tolerance": tolerance,
        "traced": all(any((run.path / TRACE).glob("*.trace")) for run in (one, other)),
    }


def _partings(one: Run, other: Run, steps: NDArray[np.int64], tolerance: float) -> tuple[Answer | None, Answer | None]:
    exact: Answer | None = None
    for window in _windows(steps):
        mine, yours, where = _common(one, other, window)
        if exact is None:
            differs = np.zeros(len(where), bool)
            for name in _NUMBERS:
                differs |= mine[name].view("<i8") != yours[name].view("<i8")
            exact = _first(mine, yours, where, differs)
        if exact is not None:
            with np.errstate(invalid="ignore"):
                scale = np.maximum(np.abs(mine["l2"]), np.abs(yours["l2"]))
                apart = np.abs(mine["l2"] - yours["l2"]) > tolerance * scale
            apart |= np.isnan(mine["l2"]) != np.isnan(yours["l2"])
            if near := _first(mine, yours, where, apart):
                return exact, near
    return exact, None


def _windows(steps: NDArray[np.int64]) -> Iterator[slice]:
    for start in range(0, len(steps), WINDOW):
        held = steps[start : start + WINDOW]
        yield slice(int(held[0]), int(held[-1]) + 1)


def _common(
    one: Run, other: Run, window: slice
) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]], list[tuple[str, str, int, int]]]:
    """Return the rows that both have in these steps, in the order in which the first has them."""
    stats = [*_NUMBERS, "l2"]
    mine, yours = (run.frame(stat=stats, steps=window, as_="numpy") for run in (one, other))
    theirs = {key: row for row, key in enumerate(_keys(yours))}
    pairs = [(row, theirs[key], key) for row, key in enumerate(_keys(mine)) if key in theirs]
    left, right = [row for row, _, _ in pairs], [row for _, row, _ in pairs]
    return (
        {name: np.asarray(mine[name])[left] for name in stats},
        {name: np.asarray(yours[name])[right] for name in stats},
        [key for _, _, key in pairs],
    )


def _keys(rows: dict[str, NDArray[Any]]) -> Iterator[tuple[str, str, int, int]]:
    columns = (rows[name].tolist() for name in ("tensor", "kind", "step", "call"))
    return zip(*columns, strict=True)


def _first(
    mine: dict[str, NDArray[Any]],
    yours: dict[str, NDArray[Any]],
    where: list[tuple[str, str, int, int]],
    differs: NDArray[np.bool_],
) -> Answer | None:
    found = np.flatnonzero(differs)
    if not len(found):
        return None
    first = min(found.tolist(), key=lambda row: (where[row][2], row))
    tensor, kind, step, call = where[first]
    alike = sum(where[row][2] == step for row in found.tolist())
    values = [[name, plain(mine[name][first]), plain(yours[name][first])] for name in (*_NUMBERS, "l2")]
    return {"tensor": tensor, "kind": kind, "step": step, "call": call, "rows": alike, "values": values}


def _settings(one: Run, other: Run) -> list[list[object]]:
    """Return the settings and surroundings that are not the same."""
    return [
        [name, plain(mine.get(name)), plain(yours.get(name))]
        for mine, yours in ((one.config, other.config), (one.environment, other.environment))
        for name in sorted({*mine, *yours})
        if mine.get(name) != yours.get(name)
    ]
