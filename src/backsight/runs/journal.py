"""What is written down beside the rows: tags of steps, and what else happened."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backsight.runs import lines, places
from backsight.runs.rank import Rank

EVALUATION = "evaluation"
"""The event of what is recorded as a step that no optimizer ends: an evaluation after the last one."""

FOUND = "findings"
"""The event that holds what `backsight run` found while the run was recorded."""


@dataclass(frozen=True)
class Mark:
    """Tags that a rank gave to a step."""

    step: int
    rank: int
    tags: dict[str, Any]


@dataclass(frozen=True)
class Event:
    """What else happened, and when (seconds since 1970)."""

    event: str
    step: int | None
    rank: int
    time: float
    details: dict[str, Any]


def marks(ranks: dict[int, Rank]) -> tuple[Mark, ...]:
    """Return the tags by step."""
    found = [Mark(line["step"], k, line["tags"]) for k, rank in ranks.items() for line in rank.marks.read()]
    return tuple(sorted(found, key=lambda mark: mark.step))


def events(ranks: dict[int, Rank]) -> tuple[Event, ...]:
    """Return the events by time."""
    found = [
        Event(line["event"], line["step"], k, line["time"], line["details"])
        for k, rank in ranks.items()
        for line in rank.events.read()
    ]
    return tuple(sorted(found, key=lambda event: event.time))


def add_event(run: Path, rank: int, event: str, /, **details: Any) -> None:
    """Write down what is known once a rank of a run has ended, and its writer is closed.

    Raises:
        OSError: if it cannot be written.
    """
    values = {"event": event, "step": None, "time": time.time(), "details": details}
    with open(places.rank_folder(run, rank) / places.EVENTS, "ab") as file:
        file.write(lines.sealed(values))
