"""The rows of a torchEmber log: each tensor is measured when it is met, and put into words when the row is written."""

from __future__ import annotations

import json
import threading
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from backsight.recording.statistics import Measured, measure
from backsight.runs import DERIVED, STATISTICS
from backsight.tape import version

Row = dict[str, Any]

_SAID = ("mean", "std", "max", "min")


def get_stats(tensor: torch.Tensor) -> Row:
    """Return what is recorded of a tensor unless something else is asked for.

    ```python
    get_stats(torch.tensor([1.0, 3.0]))     # {'shape': [2], 'mean': 2.0, 'std': 1.414..., 'max': 3.0, 'min': 1.0}
    ```

    If not every element is finite, the four numbers are NaN, and `nans` and `infs` say how many are not. A tensor that
    cannot be read has them NaN too, and `skipped` says why.
    """
    rows = Rows()
    rows.note(tensor, {})
    return rows.taken()[0]


class Rows:
    """Rows in the order in which they came about, until they are taken; they hold numbers, and no tensor."""

    def __init__(self) -> None:
        self._rows: list[tuple[Row, list[int] | None, int]] = []
        """What a row says apart from statistics, the shape, and which statistics are its own, or -1."""
        self._measured: list[Measured] = []
        self._count = 0
        self._known: dict[int, tuple[weakref.ref[torch.Tensor], int, int]] = {}
        """Tensors that have been measured, by id: with their version then, and which statistics are theirs."""
        self._turn = threading.RLock()
        """A model may be called by several threads."""

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, row: Row) -> None:
        """Add a row that says everything itself."""
        with self._turn:
            self._rows.append((row, None, -1))

    def note(self, tensor: torch.Tensor, where: Row) -> None:
        """Measure a tensor, which may be gone or modified in a moment, for the row that ends with `where`.

        What one module returns the next is given: the same tensor at the same version is read once.
        """
        with self._turn:
            known, now = self._known.get(id(tensor)), version(tensor)
            if now is not None and known is not None and known[1] == now and known[0]() is tensor:
                self._rows.append((where, _shape(tensor), known[2]))
                return
            if now is not None:
                self._known[id(tensor)] = weakref.ref(tensor), now, self._count
            self.note_all([tensor], [where])

    def note_all(self, tensors: Sequence[torch.Tensor], wheres: Sequence[Row]) -> None:
        """Measure the parameters or gradients of a module in one pass.

        They are not looked up: a weak reference to a parameter would make `torch.utils.swap_tensors` refuse.
        """
        if not tensors:
            return
        with self._turn:
            self._measured.append(measure(tensors, histogram=False))
            for tensor, where in zip(tensors, wheres, strict=True):
                self._rows.append((where, _shape(tensor), self._count))
                self._count += 1

    def taken(self) -> list[Row]:
        """Return the rows, and forget them; waits for statistics that are on their way from another device."""
        with self._turn:
            rows, measured = self._rows, self._measured
            self._rows, self._measured, self._count = [], [], 0
            self._known.clear()
        if not measured:
            return [row for row, _, _ in rows]
        said = _statistics(measured)
        return [row if at < 0 else {"shape": shape, **said[at], **row} for row, shape, at in rows]


def plain(said: Mapping[str, Any]) -> Row:
    """Return a dict as JSON can hold it: tensors and arrays become numbers and lists of them.

    Raises:
        TypeError: if it is no dict, or holds something else.
    """
    if not isinstance(said, Mapping):
        raise TypeError(f"a dict is needed, and this is of type {type(said).__name__}.")
    held: Row = json.loads(json.dumps(dict(said), default=_listed))
    return held


def _listed(value: Any) -> Any:
    if isinstance(value, torch.Tensor | np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"a log holds numbers, strings, lists and dicts, and this is of type {type(value).__name__}.")


def _statistics(measured: Sequence[Measured]) -> list[Row]:
    """Return what is said of each tensor."""
    rows = np.concatenate([each.rows for each in measured])
    columns = {name: rows[name] for name in STATISTICS.names or ()}
    lost = (rows["nans"] + rows["infs"] > 0).tolist()
    values = [np.where(lost, np.nan, DERIVED[name](columns)).tolist() for name in _SAID]
    said: list[Row] = [dict(zip(_SAID, numbers, strict=True)) for numbers in zip(*values, strict=True)]
    for at in np.flatnonzero(lost).tolist():
        said[at].update(nans=int(rows["nans"][at]), infs=int(rows["infs"][at]))
    start = 0
    for each in measured:
        for position, reason in each.skipped.items():
            said[start + position]["skipped"] = reason
        start += len(each.rows)
    return said


def _shape(tensor: torch.Tensor) -> list[int] | None:
    try:
        return list(tensor.shape)
    except RuntimeError:  # a nested tensor has none
        return None
