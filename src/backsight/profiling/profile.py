"""`Profile`: the times of a step as plain data."""

from __future__ import annotations

import gzip
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from backsight.profiling.row import Row, merged, ranked

if TYPE_CHECKING:
    from backsight.text.rich import Console, ConsoleOptions, RenderResult


class Times(NamedTuple):
    """What is added up of a trace."""

    rows: tuple[Row, ...]
    outside: float
    device: str | None


@dataclass
class Profile:
    """Where the time went; filled in when the profiled block ends.

    ```python
    print(p)                                      # the table
    p.rows[0].op, p.rows[0].module                # ('MmBackward0', 'blocks.0.up')
    sum(row.backward for row in p.rows)           # seconds in autograd nodes
    print(p.by_module(depth=2)); print(p.by_op())
    ```

    Plain data: it pickles, but for the trace that has not been exported.

    Attributes:
        rows: the times, of each kind of node in each module, the largest first. They add up: no time counts twice.
        wall: seconds from the beginning of the block to its end.
        outside: of these, what was spent in no operation: in Python, in the engine between nodes, in the profiler.
        device: the kind of GPU that worked, such as `"cuda"`; None if none did. Rows are then sorted by its time.
        finished: whether the block has ended.
    """

    rows: tuple[Row, ...] = field(default_factory=tuple)
    wall: float = 0.0
    outside: float = field(default_factory=float)
    device: str | None = field(default_factory=lambda: None)
    finished: bool = False
    _trace: Any = field(default=None, repr=False, compare=False)

    def _finish(self, wall: float, trace: Any, add_up: Callable[[], Times]) -> None:
        """Take what was seen. It is added up when it is first asked for, and not in the midst of the training."""
        self.wall, self.finished, self._trace = wall, True, trace
        for name in Times._fields:
            del self.__dict__[name]  # so that they come to `__getattr__`; they have no default in the class either
        self._add_up = add_up

    def __getattr__(self, name: str) -> Any:
        if name not in Times._fields or "_add_up" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        self.__dict__.update(self._add_up()._asdict())
        del self._add_up
        return self.__dict__[name]

    def by_module(self, depth: int | None = None) -> Profile:
        """Return the times by module; with `depth`, those of deeper modules count for what contains them.

        Raises:
            ValueError: if `depth` is not a positive number.
        """
        if depth is not None and (isinstance(depth, bool) or not isinstance(depth, int) or depth < 1):
            raise ValueError(f"by_module(depth=...) expects a positive whole number or None, not {depth!r}.")

        def place(row: Row) -> Row:
            path = row.module
            kept = path if path is None or depth is None else ".".join(path.split(".")[:depth])
            return Row(row.op if row.kind == "optimizer" else "(unknown)" if kept is None else "", kept, kind="sum")

        return replace(self, rows=ranked(merged(self.rows, place)))

    def by_op(self) -> Profile:
        """Return the times by node, operation and optimizer, of all modules together."""
        return replace(self, rows=ranked(merged(self.rows, lambda row: Row(row.op, kind=row.kind))))

    def table(self, limit: int | None = 25, width: int | None = None) -> str:
        """Return the table as text: the `limit` largest rows, None for all of them.

        Raises:
            ValueError: if `limit` is not a positive number.
        """
        from backsight.profiling.table import text

        return text(self, limit, width)

    def to_pandas(self) -> Any:
        """Return the rows as a `pandas.DataFrame`, times in seconds.

        Raises:
            ImportError: if pandas is not installed.
        """
        try:
            pandas = import_module("pandas")
        except ImportError as error:
            raise ImportError("to_pandas() needs pandas: pip install 'backsight[runs]'. Or read `rows`.") from error
        names = [name for name in Row.__dataclass_fields__ if name != "share"]
        columns = [*names, "calls", "total", "device_total", "share"]
        return pandas.DataFrame({name: [getattr(row, name) for row in self.rows] for name in columns})

    def export_chrome_trace(self, path: str | Path) -> None:
        """Write PyTorch's own trace, with our marks of modules and gradients, for chrome://tracing or Perfetto.

        A name that ends in `.gz` is compressed.

        Raises:
            RuntimeError: if there is none: the block still runs, or this came out of a pickle.
        """
        if self._trace is None:
            reason = "a pickled profile leaves its trace behind" if self.finished else "the profiled block still runs"
            raise RuntimeError(f"there is no trace to export: {reason}.")
        if not isinstance(self._trace, bytes):
            self._trace = _saved(self._trace)
        target = Path(path)
        target.write_bytes(gzip.compress(self._trace) if target.suffix == ".gz" else self._trace)

    def __getstate__(self) -> dict[str, Any]:
        added = {name: getattr(self, name) for name in Times._fields}
        return {**self.__dict__, **added, "_trace": self._trace if isinstance(self._trace, bytes) else None}

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from backsight.profiling.table import parts

        yield from parts(self, 25, options.max_width)

    def __str__(self) -> str:
        from backsight.profiling.table import printed

        return printed(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))


def _saved(seen: Any) -> bytes:
    """Return a trace as PyTorch writes it, which it does only once and only into a file."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "trace.json")
        seen.save(str(file))
        return file.read_bytes()
