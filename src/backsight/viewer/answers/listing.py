"""The runs of a folder, a line each."""

from __future__ import annotations

from backsight.runs import Run, RunError
from backsight.tables.listing import listed
from backsight.viewer.answers.rows import marks
from backsight.viewer.packing import plain
from backsight.viewer.question import Answer, Asked

SPARK = 80
"""Points of the line beside a run."""


def listing(runs: dict[str, Run]) -> Answer:
    """Return what is to be said of each run; of one that has just been removed, nothing."""
    found = []
    for name, run in runs.items():
        try:
            found.append({"name": name, **_line(run)})
        except (RunError, OSError):
            continue
    return {"runs": found}


def _line(run: Run) -> Answer:
    seen = listed(run)
    tags = marks(run, Asked({"columns": str(SPARK)}))["lines"]
    spark = next((name for name in tags if "loss" in name.lower()), next(iter(tags), None))
    return {
        "created": seen.created,
        "steps": seen.steps,
        "tensors": seen.tensors,
        "ranks": seen.ranks,
        "world": seen.world,
        "bytes": seen.bytes,
        "state": seen.state,
        "damage": seen.damage,
        "script": plain(run.config).get("script"),
        "spark": None if spark is None else {"name": spark, **tags[spark]},
    }
