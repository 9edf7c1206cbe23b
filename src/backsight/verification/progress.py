"""A progress bar for what takes longer than a second."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PATIENCE = 1.0
"""Seconds without a bar."""


@contextmanager
def progressing(total: int, wanted: bool | None) -> Iterator[Callable[[str], None]]:
    """Yield a function to call when one of `total` things is done, with its name.

    The bar stands on stderr and is gone at the end. By default it is shown in a terminal only.
    """
    if wanted is None:
        wanted = sys.stderr.isatty()
    if not wanted:
        yield lambda name: None
        return
    from backsight.text.console import Console
    from backsight.text.rich import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("verifying"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.description}", markup=False),
    )
    bar = Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True)
    task = bar.add_task("", total=total)
    began, shown = time.monotonic(), False

    def advance(name: str) -> None:
        nonlocal shown
        if not shown and time.monotonic() - began > PATIENCE:
            bar.start()
            shown = True
        bar.update(task, advance=1, description=name)

    try:
        yield advance
    finally:
        if shown:
            bar.stop()
