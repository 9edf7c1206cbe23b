"""Bytes over the changes of a history, kind by kind: what tables and pictures draw."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from backsight.memory.ledger import KINDS, History, Kind

Curve = NDArray[np.int64]


def by_kind(history: History) -> dict[Kind, Curve]:
    """Return for each kind the bytes before the first change and after each: one value more than there are changes."""
    kinds = np.array([KINDS.index(block.kind) for block in history.blocks], np.int64)
    of_change = kinds[history.block] if len(history.block) else np.zeros(0, np.int64)
    curves: dict[Kind, Curve] = {}
    for number, kind in enumerate(KINDS):
        start = sum(block.bytes for block in history.blocks if block.born < 0 and block.kind == kind)
        deltas = np.where(of_change == number, history.delta, 0)
        curves[kind] = start + np.concatenate([[0], np.cumsum(deltas)]).astype(np.int64)
    return curves


def seconds(history: History) -> NDArray[np.float64]:
    """Return the times of the values of a curve, in seconds from the start."""
    return np.concatenate([[0.0], (history.time - history.began) / 1e9])


def passes(history: History) -> list[tuple[str, float, float]]:
    """Return the phases as a picture names them, with seconds: a backward pass and the recomputations in it are one."""
    found: list[tuple[str, float, float]] = []
    for span in history.spans:
        name = "backward" if span.phase == "recomputation" else span.phase
        began = found.pop()[1] if found and found[-1][0] == name else (span.began - history.began) / 1e9
        found.append((name, began, (span.ended - history.began) / 1e9))
    return found


def at_moments(history: History, values: Curve, count: int) -> Curve:
    """Return the most bytes in each of `count` equal parts of the step's time."""
    return values[highest(history, values, count)[1]]


def highest(history: History, values: Curve, count: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the beginnings of equal parts of the step's time, in seconds, and where in each the most bytes are.

    Drawn so, a spike is as wide as a part, however short it was.
    """
    edges = np.linspace(0, (history.ended - history.began) / 1e9, count + 1)
    # A part begins with the value from before its first change; the last one ends with the step.
    cuts = np.searchsorted(seconds(history), edges, side="right")
    ends = np.maximum(cuts, 1)
    positions = [low + int(values[low:high].argmax()) for low, high in zip(ends[:-1] - 1, ends[1:], strict=True)]
    return edges[:-1], np.array(positions, np.int64)


def thinned(total: Curve, most: int) -> NDArray[np.int64]:
    """Return positions of about `most` values at most that keep the picture: of each part the least and greatest."""
    if len(total) <= most:
        return np.arange(len(total))
    parts = np.array_split(np.arange(len(total)), max(1, most // 4))
    kept = {0, len(total) - 1, int(total.argmax())}
    for part in parts:
        kept |= {int(part[0]), int(part[-1]), int(part[total[part].argmin()]), int(part[total[part].argmax()])}
    return np.array(sorted(kept), np.int64)
