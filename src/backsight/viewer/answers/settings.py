"""What a run was made with, one line each, so that several runs can be laid side by side."""

from __future__ import annotations

from backsight.runs import Run
from backsight.tables.settings import settings_of
from backsight.viewer.packing import plain
from backsight.viewer.question import Answer, Asked, question


@question("settings")
def settings(run: Run, asked: Asked) -> Answer:
    """Arguments of the command line, what optimizers are set to, commit, seed, versions, and the configuration."""
    return {"settings": [[group, name, plain(value)] for group, name, value in settings_of(run)]}
