"""torchtitan's numerics debugging beside us: a tracer on DebugMode, and a script that compares two of its logs.

They are no part of the package `torchtitan`, but of its repository, in `agent_tooling/numerics_debugging`, and need
nothing but PyTorch there. `Titan` takes them from a checkout. The tracer writes the operations of a step whose results
are of floating point: where they are, norms of inputs and results, and five statistics. The script pairs operations by
module, operator and number, and writes a page in which rows that differ are red. It names no first one: here that is
the first row of the page that differs, or that only one of both logs has.
"""

from __future__ import annotations

import importlib
import linecache
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

FOLDER = "agent_tooling/numerics_debugging"


@dataclass(frozen=True)
class Row:
    """The first row that differs: how it is told, its module, and its file and the text of its line."""

    said: str
    module: str
    file: str
    line: str


class Titan:
    """Both parts of a checkout.

    Raises:
        ValueError: if they are not there.
    """

    def __init__(self, checkout: Path):
        if not (checkout / FOLDER / "compare_numerics.py").is_file():
            raise ValueError(f"{checkout} has no {FOLDER}/compare_numerics.py: give a checkout of torchtitan.")
        sys.path.insert(0, str(checkout))
        package = FOLDER.replace("/", ".")
        self._tracing: Any = importlib.import_module(f"{package}.activation_tracer")
        self._comparing: Any = importlib.import_module(f"{package}.compare_numerics")

    @contextmanager
    def tracing(self, model: nn.Module, log: Path, *, least: int = 1000) -> Iterator[None]:
        """Trace what runs inside. least: how many elements a result must have, 1,000 as torchtitan has it."""
        tracer = self._tracing.DebugModeTracer(model, min_numel=least)
        with tracer as captures:
            yield
        self._tracing.dump_captures_to_file(captures, str(log), skipped_excluded_ops=tracer.skipped_excluded_ops)

    def traced(self, model: nn.Module, step: Callable[[], object], folder: Path) -> int:
        """Trace a step; return the bytes of its log."""
        log = folder / "titan.log"
        with self.tracing(model, log):
            step()
        return log.stat().st_size

    def compared(self, *logs: Path) -> list[Any]:
        """Compare two logs and write the page; return its rows."""
        entries = [self._comparing.parse_log(str(log)) for log in logs]
        rows = self._comparing.match_entries(entries[0][0], entries[1][0])
        page = self._comparing.generate_html(rows, *map(str, logs), skipped1=entries[0][1], skipped2=entries[1][1])
        logs[0].with_suffix(".html").write_text(page)
        return rows

    def first(self, *logs: Path, beside: Path) -> tuple[Row | None, int]:
        """Return the first row of the page that differs, and how many do. beside: the file that lines are read of."""
        differing = [row for row in self.compared(*logs) if row[2] != "match"]
        if not differing:
            return None, 0
        ours, theirs, status, _, _ = differing[0]
        entry = ours if ours is not None else theirs
        name, _, number = entry.location.rpartition(":")
        line = linecache.getline(str(beside), int(number)) if name.endswith(beside.name) and number.isdecimal() else ""
        module, _, call = entry.key.rpartition("/")
        said = f"{call} of {module} {'differs' if status == 'diff' else 'is in one only'}, {len(differing) - 1:,} more"
        return Row(said, module, name, line), len(differing)
