"""Which run a name on the command line means: its folder, its name in ./runs, the beginning of that, its script."""

from __future__ import annotations

import os
from pathlib import Path

from backsight.runs import NotARun, Run, RunNotFound, open_run, runs_begun_as, runs_in
from backsight.runs.opening import RECORD_ONE, RUNS, run_folders

CANDIDATES = 8
"""Runs that are named where a name could be that of several."""


def opened(run: str | None) -> Run:
    """Return a run by its folder, by its name in ./runs or the beginning of that, or the newest of those."""
    if run is None:
        if not os.path.isdir(RUNS) or not (found := runs_in(RUNS)):
            raise RunNotFound(f"there is no run in ./{RUNS}. {RECORD_ONE}")
        return found[-1]
    inside = Path(RUNS) / run
    try:
        return open_run(run)
    except NotARun:
        if not inside.is_dir():
            if Path(run).is_file() and (meant := _newest_of(run)):
                return open_run(meant)
            raise
    except RunNotFound:
        if meant := _meant(run):
            return open_run(meant)
        if not os.path.isdir(RUNS) or Path(run).name != run:
            raise
    return open_run(inside)  # which knows what else is there


def folder_of(name: str) -> Path:
    """Return the folder of a name: itself if there is one, else that of the run which `opened` finds.

    Raises:
        RunNotFound: if the name could be that of several runs.
    """
    return Path(name) if os.path.isdir(name) else _meant(name) or Path(name)


def _meant(run: str) -> Path | None:
    return _begun_as(run) or _newest_of(run)


def _begun_as(run: str) -> Path | None:
    """Return the one run in ./runs, or at the path, whose name is this or begins so; None if there is none.

    Raises:
        RunNotFound: if there are several.
    """
    inside = Path(RUNS) / run
    found = runs_begun_as(inside) or (runs_begun_as(Path(run)) if Path(run).name != run else [])
    if len(found) < 2 or inside in found:
        return inside if inside in found else next(iter(found), None)
    named, more = found[:CANDIDATES], len(found) - CANDIDATES
    listed = "".join(f"\n  {path}" for path in named) + (f"\n  and {more:,} more" if more > 0 else "")
    raise RunNotFound(f"{run!r} is ambiguous: it matches {len(found):,} runs:{listed}")


def _newest_of(script: str) -> Path | None:
    """Return the newest run in ./runs of a script, `2026-11-26-18-39-25-train` of `train` or `train.py`."""
    name = script.removesuffix(".py")
    found = (
        [each for each in run_folders(Path(RUNS)) if each.name.endswith(f"-{name}")] if name == Path(name).name else []
    )
    return max(found, key=lambda each: each.name, default=None)
