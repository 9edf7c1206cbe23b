"""What `backsight diff` prints."""

from __future__ import annotations

import shutil
import sys

from backsight.tables.printing import complain
from backsight.text import for_stdout
from backsight.traces import Difference, TraceError, diff

_WIDEST = 120
"""Columns beyond which a terminal's lines are not read as lines."""

_IN_ASCII = str.maketrans("▁▂▃▄▅▆▇█·", "_.-=+*#@ ")


def show_difference(a: str, b: str, *, rank: int = 0, as_json: bool = False, report: str | None = None) -> int:
    """Print where two traces diverge.

    Returns 0 if nothing differs but by rounding, 1 if something does, and 2 if they cannot be compared. For a program
    that ran twice, rounding counts too: it is not reproducible then. Of two recordings without traces it still prints
    what these tell.
    """
    try:
        found = diff(a, b, rank=rank)
    except TraceError as error:
        complain(error)
        if not as_json and _are_recordings(a, b):
            from backsight.tables.commands import show_runs

            show_runs([a, b])
        return 2
    return show(found, as_json=as_json, report=report)


def _are_recordings(*folders: str) -> bool:
    from backsight.runs import RunError, open_run

    try:
        return all(open_run(each) for each in folders)
    except RunError:
        return False


def show(found: Difference, *, as_json: bool = False, report: str | None = None, twice: bool = False) -> int:
    """Print a difference, and return the status as above."""
    if report is not None:
        try:
            found.save(report)
        except (OSError, ValueError) as error:
            complain(error)
            return 2
    sys.stdout.write(f"{found.to_json()}\n" if as_json else for_stdout(lambda *how: _text(found, *how), _IN_ASCII))
    if not found.steps or found.uncompared:
        return 2
    beyond = found.agreement is not None and found.agreement.beyond in found.untraced
    if twice:
        return int(not found.same or bool(found.untraced))
    return int(beyond or found.cls in ("precision", "semantics"))


def _text(found: Difference, terminal: bool, color: bool) -> str:
    if not terminal:
        return found.text()
    from backsight.text.console import printed
    from backsight.traces.terminal import in_color

    width = max(60, min(shutil.get_terminal_size().columns, _WIDEST))
    return printed(*in_color(found), width=width, color=color, terminal=True) + "\n"
