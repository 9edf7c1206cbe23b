"""The runs of a folder, a line each."""

from __future__ import annotations

import math
import os
import shlex
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from backsight.runs import Damage, Run, loss_names
from backsight.tables.settings import arguments_of
from backsight.tables.text import ago, moment, number
from backsight.text import printable, size

if TYPE_CHECKING:
    from backsight.text.rich import Table, Text

_GAP = 2
"""Spaces between columns."""

_SHORTEST = 12
"""Characters that what is cut keeps at least."""

_DROPPED = ("size", "started", "ranks", "tensors")
"""Columns that a narrow table goes without, the first first."""

_CUT = ("arguments", "run")
"""Columns that are cut where that is not enough, the first first."""

UNREADABLE = "unreadable"
"""The state of a run of which nothing can be read."""

_NUMERALS = 4
"""Digits of a loss."""

QUIET = 60.0
"""Seconds without a write after which an open run is no longer said to be recording."""


@dataclass(frozen=True)
class Listed:
    """What the list says of a run."""

    path: Path
    created: float
    steps: int
    """Those that were recorded."""
    of: int
    """Those that there were up to the last of them."""
    tensors: int
    ranks: int
    world: int
    bytes: int
    state: str
    """`finished`, `recording`, `unreadable`, `silent 3 h` for one neither closed nor written to for a while; `no steps`
    where nothing tells whether it was closed; `broke off` where it says itself that recording could not go on."""
    damage: str
    arguments: str = ""
    """Those of the program, where they were asked for."""
    loss: float | None = None
    """Its last value, where it was asked for and there is one."""


def listed(run: Run, now: float | None = None) -> Listed:
    """Read what is to be said of a run."""
    now = time.time() if now is None else now
    seen = run.overview
    made, tensors = seen.training_steps, len(seen.tensors)  # before `damage`, which tells what reading has met
    steps = len(made)
    total, last, still_open = files(run.path)
    said = {event.event for event in seen.events}
    if not (steps or still_open):
        state = "no steps"
    elif still_open and not said.isdisjoint(("broke off", "ended")):
        state = "broke off" if "broke off" in said else "finished"
    else:
        state = "finished" if not still_open else "recording" if now - last < QUIET else f"silent {ago(now - last)}"
    of = max(steps, int(seen.steps[-1]) + (steps == len(seen.steps))) if steps else 0
    return Listed(
        run.path, run.created, steps, of, tensors, len(run.ranks), run.world, total, state, _damage(run.damage)
    )


def told_apart_by(run: Run) -> Listed:
    """Read what is to be said of a run among others: what it was started with, and how its loss ended, as well."""
    found = run.overview.numbers()  # before `listed`, as it counts damage too
    values = next((found[name][1] for name in loss_names(run.overview, found) if len(found[name][1])), None)
    loss = None if values is None else float(values[-1])
    return replace(listed(run), arguments=printable(shlex.join(arguments_of(run))), loss=loss)


def unreadable(path: Path) -> Listed:
    """Return the line of a run of which nothing can be read but that it is there."""
    total, last, _ = files(path)
    return Listed(path, last, 0, 0, 0, 0, 0, total, UNREADABLE, "all of it")


def table(runs: list[Listed], folder: Path, width: int) -> Table:
    """Return the list, by the names that the runs have in the folder; numbers are left out rather than cut."""
    from backsight.text.rich import Table

    columns = _columns(runs, folder)
    widths = _fitting(columns, width)
    grid = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="dim")
    for heading, room in widths.items():
        right = heading in ("steps", "tensors", "last loss", "ranks", "size")
        side: Literal["left", "right"] = "right" if right else "left"
        grid.add_column(heading, justify=side, no_wrap=True, overflow="ellipsis", min_width=room, max_width=room)
    for cells in zip(*(columns[heading] for heading in widths), strict=True):
        grid.add_row(*cells)
    return grid


def _columns(runs: list[Listed], folder: Path) -> dict[str, list[Text]]:
    """Return the cells by heading; of what is as usual for all runs there is no column."""
    from backsight.text.rich import Text

    ranks = [str(each.world) if each.ranks == each.world else f"{each.ranks} of {each.world}" for each in runs]
    columns = {
        "run": [Text(_name(each.path, folder), "bold") for each in runs],
        "started": [Text(moment(each.created)) for each in runs],
        "arguments": [Text(each.arguments) for each in runs],
        "steps": [Text(recorded(each)) for each in runs],
        "tensors": [Text(f"{each.tensors:,}") for each in runs],
        "last loss": [_loss(each.loss) for each in runs],
        "ranks": [Text(each) for each in ranks],
        "size": [Text(size(each.bytes)) for each in runs],
        "state": [Text(each.state, _style(each.state)) for each in runs],
        "damage": [Text(each.damage, "dim" if each.damage == "none" else "bold red") for each in runs],
    }
    usual = {"arguments": "", "last loss": "", "ranks": "1", "damage": "none"}
    return {
        heading: cells
        for heading, cells in columns.items()
        if heading not in usual or any(cell.plain != usual[heading] for cell in cells)
    }


def _loss(loss: float | None) -> Text:
    from backsight.text.rich import Text

    if loss is None:
        return Text("")
    if not math.isfinite(loss):
        return Text(str(loss), "bold red")
    told = number(loss)  # which leaves out zeros at the end, so that a column would have numbers of different precision
    return Text(told if "e" in told else f"{loss:#.{_NUMERALS}g}".removesuffix("."))


def _fitting(columns: dict[str, list[Text]], width: int) -> dict[str, int]:
    """Return the columns that there is room for, with their widths; words alone are cut, when nothing else helps."""
    widths = {heading: max(len(heading), *(cell.cell_len for cell in cells)) for heading, cells in columns.items()}
    for heading in _DROPPED:
        if _total(widths) > width:
            widths.pop(heading, None)
    for heading in _CUT:
        if heading in widths:
            shortest = min(widths[heading], _SHORTEST)
            widths[heading] = max(shortest, widths[heading] - max(0, _total(widths) - width))
    if _total(widths) > width and widths.pop("arguments", None) is not None:
        return _fitting({heading: cells for heading, cells in columns.items() if heading in widths}, width)
    return widths


def _total(widths: dict[str, int]) -> int:
    return sum(widths.values()) + _GAP * (len(widths) - 1)


def _name(path: Path, folder: Path) -> str:
    inside = path.relative_to(folder) if path.is_relative_to(folder) and path != folder else path
    return printable(str(inside))


def recorded(run: Listed) -> str:
    """Return how many steps were recorded, and of how many if not of all."""
    return f"{run.steps:,}" if run.steps == run.of else f"{run.steps:,} of {run.of:,}"


def _style(state: str) -> str:
    return {"finished": "green", "recording": "bold cyan", UNREADABLE: "bold red"}.get(state, "yellow")


def _damage(damage: Damage) -> str:
    parts = [
        f"{count:,} {noun}{'s' * (count != 1)}"
        for count, noun in ((damage.blocks, "block"), (damage.lines, "line"))
        if count
    ]
    return ", ".join(parts) or "none"


def files(folder: Path) -> tuple[int, float, bool]:
    """Return the bytes of a run, when it was written to last, and whether a segment of it may still grow."""
    total, last, still_open = 0, 0.0, False
    for where, _, names in os.walk(folder):
        for name in names:
            try:
                status = os.stat(os.path.join(where, name))
            except OSError:  # it has just become part of another, or leads nowhere
                continue
            total, last = total + status.st_size, max(last, status.st_mtime)
            still_open |= name.endswith(".live")
    return total, last, still_open
