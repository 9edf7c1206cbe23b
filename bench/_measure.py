"""Timing several ways to do one thing fairly, in turn, in one process, so that a slow moment hits them all.

How far the measurements of a `median` lie apart is told at the end. What `report` prints is also kept as data where the
variable BENCH_KEPT names a file: see bench/performance.py.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

WIDTH = 120
"""Columns of a file or pipe."""

SLOW = 5.0
"""Seconds after which a side is measured only once."""


@dataclass(frozen=True)
class Side:
    """One way to do it: `run` is timed, on what `prepare` makes anew each time; `remark` comments on its answer."""

    prepare: Callable[[], Any]
    run: Callable[[Any], Any]
    remark: Callable[[Any], str] = lambda answer: ""


@dataclass(frozen=True)
class Result:
    """The median of the times that one side took, and what it said about its answer or its failure."""

    seconds: float
    note: str = ""
    failed: bool = False


class GaveUp(BaseException):
    """A side has spent its time or memory. No Exception, because what it interrupts may swallow those."""


_spreads: list[float] = []


def median(values: Iterable[float]) -> float:
    """Return the median of what was measured, and note its spread: half of the way between the quartiles, of it."""
    held = list(values)
    middle = statistics.median(held)
    if len(held) > 2 and middle > 0:
        low, _, high = statistics.quantiles(held, n=4, method="inclusive")
        _spreads.append((high - low) / 2 / middle)
    return middle


@atexit.register
def _tell_spread() -> None:
    """Say how far from each other the measurements of one thing were."""
    if _spreads:
        typical, widest = statistics.median(_spreads), max(_spreads)
        told = f"half of the measurements of one thing lie within {typical:.1%} of their median; {widest:.1%} at worst"
        print(told)
        _write({"spread": {"typical": round(typical, 4), "widest": round(widest, 4)}})


def interleaved(sides: Mapping[str, Side], rounds: int) -> dict[str, Result]:
    """Run all sides in turn, `rounds` times, and return their medians; a side that fails or is slow runs once."""
    results: dict[str, list[Result]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, side in sides.items():
            done = results[name]
            if not done or not (done[0].failed or done[0].seconds > SLOW):
                done.append(_once(side))
    return {
        name: Result(median(result.seconds for result in done), done[0].note, done[0].failed)
        for name, done in results.items()
    }


def _once(side: Side) -> Result:
    subject = side.prepare()
    gc.collect()
    start = time.perf_counter()
    try:
        answer = side.run(subject)
        seconds = time.perf_counter() - start
    except GaveUp as reason:
        seconds = time.perf_counter() - start
        return Result(seconds, f"gave up: {seconds:.0f} s, {reason}", failed=True)
    except Exception as error:
        return Result(time.perf_counter() - start, type(error).__name__, failed=True)
    return Result(seconds, side.remark(answer))


def verdict(met: bool, text: str) -> str:
    """Say whether a figure that backsight promises was met."""
    return f"{'[green]met[/]   ' if met else '[red]missed[/]'} {text}"


def simple_table(first: str, *others: str, title: str) -> Table:
    """Return an empty table of at most 80 columns: a column of words, and columns of numbers."""
    table = Table(first, title=title, title_justify="left", box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for heading in others:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def report(*parts: RenderableType) -> None:
    """Print tables and lines, a blank line between tables; unbroken and without colours in a file or pipe."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH)
    for part in parts:
        _keep(part)
        console.print(part, highlight=False)
        if isinstance(part, Table):
            console.print()


def _keep(part: RenderableType) -> None:
    """Add a table, or a line, to the file of what is kept: one JSON object a line."""
    if isinstance(part, Table):
        columns = [[_plain(cell) for cell in (column.header, *column.cells)] for column in part.columns]
        header, *rows = zip(*columns, strict=True)
        kept: dict[str, Any] = {"title": _plain(part.title or ""), "columns": header, "rows": rows}
    else:
        kept = {"note": _plain(part)}
    _write(kept)


def _write(kept: Mapping[str, Any]) -> None:
    """Add an object to the file of what is kept, where there is one."""
    file = os.environ.get("BENCH_KEPT")
    if file is None:
        return
    with open(file, "a", encoding="utf-8") as kept_so_far:
        kept_so_far.write(json.dumps(kept, ensure_ascii=False) + "\n")


def _plain(cell: RenderableType) -> str:
    """Return what is printed, without the markup of its colours."""
    return Text.from_markup(cell).plain if isinstance(cell, str) else str(cell)
