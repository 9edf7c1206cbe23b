"""What `backsight runs` prints. Each function returns the exit status: 2 where what was asked for is not there."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backsight.runs import Run, RunError, RunWarning
from backsight.runs.opening import RECORD_ONE, told_apart
from backsight.tables import board, listing, several, summary
from backsight.tables.named import opened
from backsight.tables.printing import complain, output, show, warnings_as_lines
from backsight.tables.step import read_step
from backsight.tables.text import command, line
from backsight.tables.top import watched
from backsight.tables.tree import ROWS, folded, in_order, modules
from backsight.text import counted, printable, size

if TYPE_CHECKING:
    from backsight.text.rich import RenderableType

Command = Callable[..., int]


def _told(function: Command) -> Command:
    """Say in a line why something cannot be done, instead of a traceback; and in a line each what is damaged."""

    @wraps(function)
    def told(*args: Any, **options: Any) -> int:
        with warnings_as_lines(RunWarning):
            try:
                status = function(*args, **options)
                sys.stdout.flush()
                return status
            except BrokenPipeError:  # whoever read this has seen enough; what Python flushes at its end must not fail
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
                return 1
            except (RunError, ImportError, ValueError) as error:
                return _refused(str(error))
            except OSError as error:
                return _refused(f"{error.filename or 'the run'}: {error.strerror or error}.")

    return told


@_told
def list_runs(folder: str) -> int:
    """Print the runs in a folder and the folders in it, the oldest first."""
    found, broken = told_apart(Path(folder))
    if not found and not broken:
        show(f"There is no run in {printable(folder)}. {RECORD_ONE}")
        return 0
    rows, why = [], dict[Path, Exception](broken)
    for run in found:
        try:
            rows.append(listing.told_apart_by(run))
        except Exception as error:  # whatever stands in it: the others are still to be listed
            why[run.path] = error
    rows += [listing.unreadable(path) for path in why]
    parts: list[RenderableType] = [listing.table(rows, Path(folder), output().width), ""]
    if any(row.state.startswith("silent") for row in rows):
        parts.append("silent: not closed and not written to since then; the program was probably killed.")
    parts += [line(f"unreadable: {_why(error)}") for error in why.values()]
    readable = [run for run in found if run.path not in why]
    if readable:
        parts += ["look at one:", command(f"backsight runs show {_typed(readable[-1])}")]
    show(*parts)
    return 0


@_told
def show_run(
    run: str | None,
    *,
    step: int | None = None,
    kinds: Sequence[str] | None = None,
    stats: Sequence[str] | None = None,
    everything: bool = False,
) -> int:
    """Print a step of a run by module, with its problems, and what to look at next."""
    held = opened(run).overview
    shown = read_step(held, step, kinds, stats)
    roots = modules(held.tree, shown.rows)
    if not everything and len(shown.rows) > ROWS:
        roots = folded(roots)
    fit = board.layout(output().width, len(shown.stats), stats is None)
    below = summary.below(held, shown, _typed(held), list(in_order(roots)))
    show(*summary.heading(held, shown), "", board.table(shown, roots, fit), "", *below)
    return 0


@_told
def show_runs(runs: Sequence[str]) -> int:
    """Print several runs side by side: their numbers, and the settings that differ."""
    held = [opened(run).overview for run in runs]
    differing = several.settings(held, output().width)
    show(*several.numbers(held, output().width), "")
    if differing is None:
        show("no settings differ")
    else:
        show(line("settings that differ"), differing)
    folders = {each.path.parent for each in held}
    if len(folders) == 1:
        show("", line("their curves, and where they diverge:"), command(f"backsight view {shlex.quote(str(*folders))}"))
    return 0


@_told
def top(run: str | None, *, seconds: float = 2.0, once: bool = False) -> int:
    """Show a run while it is recorded, until Ctrl-C."""
    watched(opened(run).overview, seconds, once)
    return 0


@_told
def export_run(run: str, file: str, *, by_rank: bool = False) -> int:
    """Write all rows of a run to one file."""
    held = opened(run)
    path = held.export(file, by_rank=by_rank)
    tensors, steps = counted(len(held.tensors), "tensor"), counted(len(held.training_steps), "step")
    print(printable(f"{path}: {tensors}, {steps}, {size(path.stat().st_size)}"))
    return 0


@_told
def audit_runs(runs: Sequence[str] = (), *, as_json: bool = False) -> int:
    """Print what the rules find in runs, with the fixes. Return 1 if an error is among it.

    as_json: print each finding as a line of JSON (docs/json.md) instead.
    """
    held = [opened(run) for run in runs or (None,)]  # what is not there is said before anything is read
    failed = False
    for run in held:
        report = run.audit()
        failed |= any(finding.severity == "error" for finding in report)
        if as_json:
            for finding in report:
                print(json.dumps({"backsight": 1, "kind": "finding", "run": str(run.path), **finding.to_dict()}))
            continue
        if len(held) > 1 or not runs:  # the newest, which nobody has named
            show(*([""] if run is not held[0] else []), line(f"{printable(str(run.path))}:"))
        show(report)
    return int(failed)


def _why(error: Exception) -> str:
    return str(error) if isinstance(error, RunError) else f"{type(error).__name__}: {error}"


def _typed(run: Run) -> str:
    """Return the run as one would type it."""
    return shlex.quote(str(run.path))


def _refused(why: str) -> int:
    complain(why)
    return 2
