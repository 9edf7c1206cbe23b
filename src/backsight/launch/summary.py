"""The one quiet line at the end of a run in which nothing was found."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from backsight.text import counted, listed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backsight.launch.first_steps import FirstSteps


def untested(run: FirstSteps) -> tuple[str, ...]:
    """Return a line for each file whose custom Functions this run has used: to test one is to call it once more."""
    files: dict[str, list[str]] = {}
    for name, file in run.customs:
        files.setdefault(file, []).append(name)
    return tuple(
        f"backsight: the backward of {' and '.join(names[:3])} was not tested. To test it: backsight verify "
        f"{os.path.basename(file)}"
        for file, names in files.items()
    )


def summary(run: FirstSteps, notes: Sequence[str] = (), explained: int = 0) -> str:
    """Return `nothing found in 90 optimizer steps: checked how 3 of their losses were computed`.

    `notes` are the codes of what was found and is only worth knowing, `explained` the errors that were told of.
    """
    if not run.audits:
        steps = counted(run.steps, "optimizer step")
        return f"backsight: {steps}; no loss was checked (backsight checks those of the first steps of an optimizer)"
    some = f"{run.audits} of their losses" if run.audits < run.steps else f"{run.audits} loss{'es' * (run.audits > 1)}"
    steps = counted(run.steps, "optimizer step")
    nothing = f"{_besides(explained)}nothing found in {steps}{_aside(notes)}"
    return f"backsight: {nothing}: checked how {some} {'were' if run.audits > 1 else 'was'} computed"


def for_tools(run: FirstSteps, notes: Sequence[str] = (), explained: int = 0) -> str:
    """Return the same as a line of JSON has it: in the words that tools know, with what was found at the end."""
    if not run.audits:
        return _unaudited(run)
    audited = f"{run.audits} losses audited (the last: " if run.audits > 1 else "1 loss audited ("
    steps, nothing = counted(run.steps, "optimizer step"), f"{_besides(explained)}nothing found{_aside(notes)}"
    return f"{steps}, {audited}{run.looked_at}): {nothing}"


def _unaudited(run: FirstSteps) -> str:
    steps = counted(run.steps, "optimizer step")
    return f"{steps}; no loss was audited (backsight audits the first steps of an optimizer)"


def _besides(explained: int) -> str:
    return f"{counted(explained, 'error')} explained above; otherwise " if explained else ""


def _aside(notes: Sequence[str]) -> str:
    """Return `, but 2 notes, BS109 and BS306 (--notes shows them)`."""
    if not notes:
        return ""
    codes = listed(list(dict.fromkeys(notes)))
    return f", but {counted(len(notes), 'note')}, {codes} (--notes shows {'it' if len(notes) == 1 else 'them'})"
