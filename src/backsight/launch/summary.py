"""The one quiet line at the end of a run in which nothing was found."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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


def summary(run: FirstSteps, notes: int = 0) -> str:
    """Return `backsight: 90 optimizer steps, 3 losses audited (the last: 45 operations and 14 leaves): nothing found`.

    `notes` counts what was found and is only worth knowing.
    """
    steps = f"{run.steps:,} optimizer step{'s' * (run.steps != 1)}"
    if not run.audits:
        return f"backsight: {steps}; no loss was audited (backsight audits the first steps of an optimizer)"
    audited = f"{run.audits} losses audited (the last: " if run.audits > 1 else "1 loss audited ("
    aside = f", but {notes} note{'s' * (notes != 1)} (--notes shows {'it' if notes == 1 else 'them'})" if notes else ""
    return f"backsight: {steps}, {audited}{run.looked_at}): nothing found{aside}"
