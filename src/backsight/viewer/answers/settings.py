"""What a run was made with, one line each, so that several runs can be laid side by side."""

from __future__ import annotations

from backsight.runs import Run
from backsight.tables.settings import settings_of
from backsight.viewer.packing import plain
from backsight.viewer.question import Answer, Asked, question

MOST_PARAMETERS = 500
"""So many tell whether two runs are of one model."""


@question("settings")
def settings(run: Run, asked: Asked) -> Answer:
    """Script, arguments, what optimizers are set to, commit, seed, versions; and by what name parameters are known."""
    parameters = {each.name for each in run.tensors if each.kind in ("weight", "grad", "averaged_grad")}
    return {
        "settings": [[group, name, plain(value)] for group, name, value in settings_of(run)],
        "parameters": sorted(parameters)[:MOST_PARAMETERS],
    }
