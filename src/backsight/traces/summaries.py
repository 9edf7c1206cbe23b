"""A summary of every step, traced or not: numbers that tell where two trainings part, at a cost of some microseconds.

Taken are the statistics of gradients before an optimizer steps and of weights after it, in one pass over their memory,
and the hyperparameters as they are then. On a device they are read a step later, so that nothing waits for it.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from backsight.recording.statistics import Measured, measure
from backsight.traces.settings import numbers
from backsight.traces.store import Writer

MISSING = -1.0
"""The norm of a gradient that is not there, or cannot be read."""

_AT_ONCE = 32
"""Summaries that are written together: after a kill, so many are missing."""

_MOST = 1 << 28
"""Bytes of summaries in a file."""

_WORDS = np.arange(1, 65, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) | np.uint64(1)
_MIX, _HALF, _ALL = np.uint64(0xD6E8FEB86659FD93), np.uint64(32), (1 << 64) - 1


class Summaries:
    """Takes a summary of each step, and hands them to the file some at a time."""

    def __init__(self, writer: Writer):
        self._writer = writer
        self._taken: list[tuple[str, Measured, int, list[int]]] = []
        """Of the step under way: what was measured, of how many tensors, and the places of those that are there."""
        self._numbers: list[list[dict[str, Any]]] = []
        self._told: list[list[dict[str, Any]]] | None = None
        """The hyperparameters that were written last."""
        self._waiting: tuple[int, list[tuple[str, Measured, int, list[int]]], Any] | None = None
        self._rows: list[list[Any]] = []
        self._bytes = 0

    def before(self, optimizer: torch.optim.Optimizer) -> None:
        """Take the gradients and hyperparameters that an optimizer is about to use."""
        if self._bytes < _MOST:
            self._numbers.append(numbers(optimizer))
            self._take("grad", [each.grad for each in _parameters(optimizer)])

    def after(self, optimizer: torch.optim.Optimizer) -> None:
        """Take the weights that it has made."""
        if self._bytes < _MOST:
            self._take("weight", _parameters(optimizer))

    def end(self, step: int) -> None:
        """End a step."""
        if self._bytes >= _MOST:
            return
        self._settle()
        changed = None if self._numbers == self._told else self._numbers
        self._waiting = step, self._taken, changed
        self._told, self._taken, self._numbers = self._numbers, [], []
        if len(self._rows) >= _AT_ONCE:
            self.flush()
        if self._bytes >= _MOST:
            self.close()
            self._writer.say(b"N", f"steps after {step} have no summary, as there are too many")

    def flush(self) -> None:
        """Hand over the summaries so far."""
        if self._rows:
            self._writer.say(b"L", self._rows)
            self._rows.clear()

    def close(self) -> None:
        self._settle()
        self.flush()

    def _take(self, what: str, tensors: Iterable[torch.Tensor | None]) -> None:
        held = list(tensors)
        there = [place for place, each in enumerate(held) if each is not None]
        measured = measure([each for each in held if each is not None], histogram=False)
        self._taken.append((what, measured, len(held), there))

    def _settle(self) -> None:
        """Make a row of the step that has ended last."""
        if self._waiting is None:
            return
        step, taken, changed = self._waiting
        self._waiting = None
        bits, norms = 0, {"grad": [], "weight": []}  # type: ignore[var-annotated]
        for what, measured, count, there in taken:
            bits = (3 * bits + _digest(measured.rows)) & _ALL
            found = np.full(count, MISSING, np.float32)
            found[there] = _norms(measured.rows)
            found[[there[index] for index in measured.skipped]] = MISSING
            norms[what].append(found)
        packed = [b64encode(b"".join(map(bytes, norms[what]))).decode() for what in ("grad", "weight")]
        self._bytes += sum(map(len, packed))
        self._rows.append([step, changed, f"{bits:016x}", *packed])


def _digest(rows: NDArray[np.void]) -> int:
    """Return statistics as a number, in any order of the tensors: sums in float64 differ wherever a single bit does."""
    words = np.ascontiguousarray(rows).view(np.uint64).reshape(len(rows), -1)
    mixed = (words * _WORDS[: words.shape[1]]).sum(axis=1)
    mixed ^= mixed >> _HALF
    mixed *= _MIX
    mixed ^= mixed >> _HALF
    return int(mixed.sum())


def _norms(rows: NDArray[np.void]) -> NDArray[np.float64]:
    finite = rows["count"] - rows["nans"] - rows["infs"]
    with np.errstate(all="ignore"):
        found: NDArray[np.float64] = np.sqrt(np.maximum(rows["m2"] + finite * np.square(rows["mean"]), 0.0))
    found[finite < rows["count"]] = np.nan
    return found


def _parameters(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    """Return what an optimizer holds, read past whatever its class defines."""
    groups = object.__getattribute__(optimizer, "__dict__").get("param_groups", [])
    return [each for group in groups for each in group["params"] if isinstance(each, torch.Tensor)]
