"""What the rules for recordings look at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from backsight.diagnosis.recordings.modules import Module, modules_of, order_of
from backsight.diagnosis.recordings.rows import Rows, read
from backsight.runs import Run, Tensor

_UNKNOWN = Module("", "a module", "", True, {})


Progress = Callable[[int, int], None]
"""Called with how many tensors have been read, and of how many."""


class Recording:
    """A run with its modules in their order, and the rows of its tensors, read when a rule first asks for them."""

    def __init__(self, run: Run, progress: Progress = lambda read, of: None):
        self.run = run
        self._rows: dict[str, dict[str, Rows]] = {}
        self._progress = progress
        self._read = 0

    @cached_property
    def steps(self) -> NDArray[np.int64]:
        return self.run.steps

    @cached_property
    def modules(self) -> dict[str, Module]:
        return modules_of(self.run)

    @cached_property
    def order(self) -> dict[str, int]:
        """The place in the forward pass of each module that was seen there."""
        return order_of(self.run)

    @cached_property
    def kinds(self) -> dict[str, list[Tensor]]:
        found: dict[str, list[Tensor]] = {}
        for tensor in self.run.tensors:
            found.setdefault(tensor.kind, []).append(tensor)
        return found

    def rows(self, kind: str) -> dict[str, Rows]:
        """Return the rows of all tensors of a kind, by name."""
        if kind not in self._rows:
            tensors = self.kinds.get(kind, [])
            found = {}
            for tensor, rows in read(self.run, tensors, len(self.steps)):
                self._read += 1
                self._progress(self._read, len(self.run.tensors))
                if rows is not None:
                    found[tensor.name] = rows
            self._rows[kind] = found
        return self._rows[kind]

    def module(self, rows: Rows) -> Module:
        """Return the module that a tensor belongs to."""
        return self.modules.get(rows.tensor.module or "", _UNKNOWN)

    def place(self, rows: Rows) -> int:
        """Return where in the forward pass the module of a tensor comes; those that were not seen there come last."""
        return self.order.get(rows.tensor.module or "", len(self.order))

    def inputs(self, module: Module) -> list[Rows]:
        """Return what a module was given in training that is fractional: no indices, and no masks of bits."""
        return [rows for rows in self.rows("input").values() if rows.tensor.module == module.name and rows.is_float]

    def outputs(self) -> Iterator[tuple[Module, Rows]]:
        """Yield what innermost modules returned in training, in the order of the forward pass; no single numbers."""
        held = (rows for rows in self.rows("output").values() if rows.is_float and rows["count"].max() > 1)
        for rows in sorted(held, key=self.place):
            module = self.modules.get(rows.tensor.module or "")
            if module is not None and module.is_leaf:
                yield module, rows
