"""`RunWriter`: one rank writes its rows, marks and events into files of its own."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from backsight.runs import lines, places
from backsight.runs.errors import RunNotWritable
from backsight.runs.members import MERGES
from backsight.runs.outlet import Outlet
from backsight.runs.packed import PackedHistograms
from backsight.runs.pending import Pending
from backsight.runs.schema import STATISTICS

SHAPES = 64
"""How many shapes of one tensor are told apart; a tensor of more shapes is one of no fixed shape from then on."""

BATCH_ROWS = 16384
"""Rows after which `append` flushes by itself, so that a caller who never does keeps little in memory."""


class RunWriter:
    """Write the recording of one rank.

        writer = RunWriter("runs/first")
        weight = writer.tensor("fc.weight", "weight", "fc", (10, 64), "float32")
        writer.append(0, [weight], rows)      # rows: an array of STATISTICS
        writer.mark(0, epoch=1, loss=0.7)
        writer.close()

    job: what the ranks of one job have in common and those of another have not; they never write into one run.

    part: whether this is a process that was forked off a rank, and whose rows are merged as those of a rank are; its
        number is beyond those of the ranks.

    What `flush` has written survives a kill of the process. All methods may be called from any thread. A process that
    was forked off does not write.

    Raises:
        RunExists: if there is a run in the folder.
        NotARun: if there is something else in it.
        RunNotWritable: if the folder cannot be made.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        rank: int = 0,
        world: int = 1,
        job: str | None = None,
        config: Mapping[str, Any] | None = None,
        environment: Mapping[str, Any] | None = None,
        part: bool = False,
    ):
        if not (0 <= rank < world or (part and rank >= world)):
            raise ValueError(f"rank must be in 0..{world - 1}, because world is {world}; it is {rank}.")
        self.path = Path(path)
        self.rank = rank
        manifest: dict[str, object] = {
            "format": places.FORMAT,
            "version": places.VERSION,
            "rank": rank,
            "world": world,
            "job": job,
            "created": time.time(),
            "config": dict(config or {}),
            "environment": dict(environment or {}),
        }
        self._outlet = Outlet(places.begin(self.path, rank, manifest))
        self._lock = threading.RLock()
        self._pending = Pending()
        self._tensors: dict[tuple[str, str, tuple[int, ...] | None, str | None], int] = {}
        self._shapes: dict[tuple[str, str], int] = {}
        self._defined = 0
        self._metrics: dict[str, int] = {}
        self._numbers: dict[str, int] = {}
        self.lost_rows = 0
        """Rows that could not be written; each time, `flush` said so by an exception."""

    @property
    def closed(self) -> bool:
        return self._outlet.closed

    def tensor(
        self,
        name: str,
        kind: str,
        module: str | None = None,
        shape: Sequence[int] | None = None,
        dtype: str | None = None,
        *,
        replicated: bool = False,
    ) -> int:
        """Return the number of a tensor of this name, kind ("weight", "grad", ...), shape and dtype.

        `replicated`: every rank holds the same whole tensor, so that a merged reading takes it once.
        """
        held = tuple(int(size) for size in shape) if shape is not None else None
        key = (name, kind, held, dtype)
        with self._writing():
            if (known := self._tensors.get(key)) is not None:
                return known
            if self._shapes.get((name, kind), 0) >= SHAPES:
                key = (name, kind, None, dtype)
                if (known := self._tensors.get(key)) is not None:
                    return known
            number = self._defined
            line = {"id": number, "name": name, "kind": kind, "module": module, "shape": key[2], "dtype": dtype}
            self._outlet.line(places.TENSORS, {**line, "replicated": bool(replicated)})
            self._tensors[key] = number
            self._defined += 1
            self._shapes[name, kind] = self._shapes.get((name, kind), 0) + 1
            return number

    def metric(self, name: str, *, merge: str = "none") -> int:
        """Return the number of a metric; `merge` says how its values of several ranks make one: see `MERGES`."""
        if merge not in MERGES:
            raise ValueError(f"merge must be one of {', '.join(MERGES)}, not {merge!r}.")
        with self._writing():
            if name not in self._metrics:
                self._outlet.line(places.METRICS, {"id": len(self._metrics), "name": name, "merge": merge})
                self._metrics[name] = len(self._metrics)
            return self._metrics[name]

    def append(
        self,
        step: ArrayLike,
        tensors: ArrayLike,
        rows: NDArray[np.void],
        *,
        call: ArrayLike = 0,
        histograms: ArrayLike | PackedHistograms | None = None,
        sampled: ArrayLike | None = None,
        negatives: ArrayLike | PackedHistograms | None = None,
        ended: Mapping[int, float] | None = None,
    ) -> None:
        """Add rows in the order in which they came about; they are copied, and written by `flush`.

        step: one number, or [n], the rows of one step below those of another.
        tensors: [n], numbers from `tensor`.
        rows: [n] of STATISTICS.
        call: [n] or one number: which call of the module in this step.
        histograms: [n, BINS] counts, or packed already; rows with `sampled` 0 have none.
        sampled: [n], how many elements each histogram looked at; `count` if not given.
        negatives: as `histograms`, how many of their counts are of negative numbers; unknown if not given.
        ended: when steps ended, in seconds since 1970; now if not given.

        Raises:
            ValueError: if these do not fit together; nothing is kept then.
            RunNotWritable: as `flush`, which it calls when much has been kept.
        """
        if rows.dtype != STATISTICS or rows.ndim != 1:
            raise ValueError(f"rows must be a flat array of STATISTICS; it is {rows.ndim}-d, of {rows.dtype}.")
        numbers = self._known(tensors, len(rows))
        with self._writing():
            looked_at = rows["count"] if sampled is None else sampled
            self._pending.rows(step, numbers, rows, call, looked_at, histograms, negatives, ended)
            if self._pending.size >= BATCH_ROWS:
                self.flush()

    def values(self, step: int, metric: int, tensors: ArrayLike, values: ArrayLike, *, call: ArrayLike = 0) -> None:
        """Add the values of a metric: [n] numbers, or [n, k] for a metric that is a short list."""
        held = np.asarray(values, "<f8")
        if not 0 <= metric < len(self._metrics):
            raise ValueError(f"metric {metric} is not a number that `metric` of this writer has given.")
        if held.ndim not in (1, 2):
            raise ValueError(f"values must be one- or two-dimensional; it is {held.ndim}-d.")
        numbers = self._known(tensors, len(held))
        with self._writing():
            self._pending.values(step, numbers, call, metric, held)

    def mark(self, step: int, /, **tags: Any) -> None:
        """Tag a step: `writer.mark(12, epoch=3, loss=0.25)`. Written at once; later tags add to earlier ones."""
        with self._writing():
            self._outlet.line(places.MARKS, {"step": int(step), "tags": tags})

    def scalars(self, step: ArrayLike, numbers: Mapping[str, ArrayLike]) -> None:
        """Add numbers of a step by name that are about no tensor, and no tags of the program's; `flush` writes them.

            writer.scalars([0, 1, 2], {"loss": [0.9, 0.7, 0.6]})

        step: one number, or [n]; then there are [n] of each name.
        """
        with self._writing():
            for name, values in numbers.items():
                if name not in self._numbers:
                    self._outlet.line(places.NUMBERS, {"id": len(self._numbers), "name": name})
                    self._numbers[name] = len(self._numbers)
                self._pending.numbers(self._numbers[name], step, values)

    def event(self, event: str, /, *, step: int | None = None, **details: Any) -> None:
        """Write down what else happened. Written at once."""
        with self._writing():
            at = None if step is None else int(step)
            self._outlet.line(places.EVENTS, {"event": event, "step": at, "time": time.time(), "details": details})

    def tree(self, tree: Any) -> None:
        """Store the modules, as docs/format.md has them; a later tree replaces an earlier one."""
        with self._writing():
            self._outlet.document(places.TREE, lines.sealed_tree(tree))

    def graph(self, step: int, graph: Mapping[str, Any]) -> None:
        """Store the autograd graph of a step, as `backsight.tape.document` writes it; a later one replaces it."""
        with self._writing():
            self._outlet.document(places.GRAPH, lines.sealed_json({"step": int(step), "graph": graph}))

    def memory(self, step: int, memory: Mapping[str, Any]) -> None:
        """Store the memory of a step, as `StepMemory.document` writes it; a later one replaces it."""
        with self._writing():
            self._outlet.document(places.MEMORY, lines.sealed_json({"step": int(step), "memory": memory}))

    def flush(self, *, sync: bool = False) -> None:
        """Write what has been appended, so that it survives a kill; with `sync`, also a loss of power.

        Raises:
            RunNotWritable: if it cannot be written; the rows are lost then, and counted in `lost_rows`.
        """
        with self._writing():
            pending, self._pending = self._pending, self._pending.following()
            if pending:
                try:
                    self._outlet.blocks(pending.blocks())
                except RunNotWritable:
                    self.lost_rows += pending.size
                    raise
            if sync:
                self._outlet.sync()

    def close(self) -> None:
        """Flush, sort what is left, and close the files; nothing may be written afterwards."""
        if not self._outlet.mine:  # forked off: the lock may be held by a thread that is not here
            self._outlet.close()
            return
        with self._lock:
            try:
                if not self.closed:
                    self.flush()
            finally:
                self._outlet.close()

    def _writing(self) -> AbstractContextManager[bool]:
        """The lock, if this process may write."""
        self._outlet.check()
        return self._lock

    def _known(self, tensors: ArrayLike, rows: int) -> NDArray[np.int64]:
        numbers = np.asarray(tensors, "<i8")
        if numbers.shape != (rows,):
            raise ValueError(f"tensors must be {rows} numbers, one per row; its shape is {numbers.shape}.")
        if rows and not 0 <= numbers.min() <= numbers.max() < self._defined:
            raise ValueError("tensors holds a number that `tensor` of this writer has not given.")
        return numbers

    def __enter__(self) -> RunWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
