"""The runs of a folder, a line each."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from backsight.runs import Damage, Run
from backsight.tables.text import ago, moment, printable, size

if TYPE_CHECKING:
    from rich.table import Table

QUIET = 60.0
"""Seconds without a write after which an open run is no longer said to be recording."""


@dataclass(frozen=True)
class Listed:
    """What the list says of a run."""

    path: Path
    created: float
    steps: int
    tensors: int
    ranks: int
    world: int
    bytes: int
    state: str
    """`finished`, `recording`, or `silent 3 h` for one that was neither closed nor written to for a while."""
    damage: str


def listed(run: Run, now: float | None = None) -> Listed:
    """Read what is to be said of a run."""
    now = time.time() if now is None else now
    steps, tensors = len(run.steps), len(run.tensors)  # before `damage`, which tells what reading has met
    total, last, still_open = _files(run.path)
    state = "finished" if not still_open else "recording" if now - last < QUIET else f"silent {ago(now - last)}"
    return Listed(run.path, run.created, steps, tensors, len(run.ranks), run.world, total, state, _damage(run.damage))


def table(runs: list[Listed], folder: Path) -> Table:
    """Return the list, by the names that the runs have in the folder."""
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    grid.add_column("run", no_wrap=True, overflow="ellipsis", ratio=None, min_width=12)
    for heading in ("started", "steps", "tensors", "ranks", "size", "state", "damage"):
        right = heading in ("steps", "tensors", "ranks", "size")
        grid.add_column(heading, justify="right" if right else "left", no_wrap=True)
    for each in runs:
        grid.add_row(
            Text(_name(each.path, folder), "bold"),
            moment(each.created),
            f"{each.steps:,}",
            f"{each.tensors:,}",
            str(each.world) if each.ranks == each.world else f"{each.ranks} of {each.world}",
            size(each.bytes),
            Text(each.state, _style(each.state)),
            Text(each.damage, "dim" if each.damage == "none" else "bold red"),
        )
    return grid


def _name(path: Path, folder: Path) -> str:
    inside = path.relative_to(folder) if path.is_relative_to(folder) and path != folder else path
    return printable(str(inside))


def _style(state: str) -> str:
    return {"finished": "green", "recording": "bold cyan"}.get(state, "yellow")


def _damage(damage: Damage) -> str:
    parts = [
        f"{count:,} {noun}{'s' * (count != 1)}"
        for count, noun in ((damage.blocks, "block"), (damage.lines, "line"))
        if count
    ]
    return ", ".join(parts) or "none"


def _files(folder: Path) -> tuple[int, float, bool]:
    """Return the bytes of a run, when it was written to last, and whether a segment of it may still grow."""
    total, last, still_open = 0, 0.0, False
    for where, _, names in os.walk(folder):
        for name in names:
            try:
                status = os.stat(os.path.join(where, name))
            except FileNotFoundError:  # it has just become part of another
                continue
            total, last = total + status.st_size, max(last, status.st_mtime)
            still_open |= name.endswith(".live")
    return total, last, still_open
