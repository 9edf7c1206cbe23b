"""The runs of a folder, a line each."""

from __future__ import annotations

import threading
import time
from weakref import WeakKeyDictionary

from backsight.runs import Run, RunError, RunNotFound
from backsight.tables.listing import QUIET, files, listed
from backsight.tables.settings import settings_of
from backsight.viewer.answers.rows import marks
from backsight.viewer.packing import plain
from backsight.viewer.question import Answer, Asked

Stamp = tuple[int, float, bool, int]

_lines: WeakKeyDictionary[Run, tuple[Stamp, Answer]] = WeakKeyDictionary()
_turn = threading.Lock()

SPARK = 80
"""Points of the line beside a run."""

MOST_CHOSEN = 60
"""How many arguments and settings of optimizers are told of a run, for a page to show those that differ."""

LONGEST = 40
"""Characters of one of them."""


def listing(runs: dict[str, Run]) -> Answer:
    """Return what is to be said of each run, and which cannot be read; of one that has just been removed, nothing."""
    found, unreadable = [], []
    for name, run in runs.items():
        try:
            found.append({"name": name, **_known_line(run)})
        except RunNotFound:
            continue
        except Exception as error:  # whatever stands in it: the others are still to be listed
            why = str(error) if isinstance(error, RunError) else f"{type(error).__name__}: {error}"
            unreadable.append({"name": name, "why": why})
    return {"runs": found, "unreadable": unreadable}


def _known_line(run: Run) -> Answer:
    """Return the line of a run, read anew only where a file of it has changed: a page asks every few seconds."""
    held = files(run.path)
    stamp = *held, int(time.time() / QUIET) if held[2] else 0  # one that is open falls silent as time passes
    with _turn:
        known = _lines.get(run)
    if known is None or known[0] != stamp:
        known = stamp, _line(run)
        with _turn:
            _lines[run] = known
    return known[1]


def _line(run: Run) -> Answer:
    answered = marks(run.overview, Asked({"columns": str(SPARK)}))
    tags = answered["lines"]
    seen = listed(run)  # last, as it tells what reading has met
    spark = next(iter((*answered["losses"], *tags)), None)
    return {
        "created": seen.created,
        "steps": seen.steps,
        "tensors": seen.tensors,
        "ranks": seen.ranks,
        "world": seen.world,
        "bytes": seen.bytes,
        "state": seen.state,
        "damage": seen.damage,
        "chosen": _chosen(run.overview),
        "spark": None if spark is None else {"name": spark, **tags[spark]},
    }


def _chosen(run: Run) -> list[list[object]]:
    """Return what people choose for a run, as texts: its arguments, and what its optimizers are set to."""
    chosen = (each for each in settings_of(run) if each[0] in ("arguments", "optimizer"))
    found = ((name, plain(value)) for _, name, value in chosen if "tensors" not in name.split())
    return [[name, value] for name, value in list(found)[:MOST_CHOSEN] if len(str(value)) <= LONGEST]
