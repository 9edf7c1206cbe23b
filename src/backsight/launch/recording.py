"""The observer of `backsight run --record`: records the program's own models, and says at the end where."""

from __future__ import annotations

import os
import shlex
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from backsight.launch.arrival import when_imported
from backsight.launch.voice import failed, say

if TYPE_CHECKING:
    from backsight.launch.models import Models
    from backsight.recording.program import ProgramRecording
    from backsight.recording.recorder import Recorder


class RecordingObserver:
    """Records each model from its first call on, into one run; without torch it does nothing at all.

    program: the name of the program, for a run that was given none.
    run: the folder of the run.
    every: every how many steps.
    """

    def __init__(self, program: str, *, run: str | None = None, every: int = 1, quiet: bool = False):
        self.program, self.run, self.every, self.quiet = program, run, every, quiet
        self._start = Path()
        self._models: Models | None = None
        self._recording: ProgramRecording | None = None

    def start(self) -> None:
        self._start = Path.cwd()  # a program may go elsewhere
        when_imported("torch", self._begin)

    def error(self, error: BaseException) -> None:
        """What was recorded up to an error is recorded."""

    def finish(self) -> None:
        if self._models is not None:
            self._models.stop()
        if self._recording is not None:
            self._recording.close()
        if not self.quiet and _rank() == 0 and (line := self._said()):
            say(line)

    def _begin(self) -> None:
        try:
            from backsight.launch.models import Models
            from backsight.recording.environment import new_run, rank_and_world
            from backsight.recording.program import ProgramRecording

            if self.run is None and rank_and_world()[1] > 1:
                raise ValueError("each of several processes has to be told the same run: --run runs/NAME")
            folder = self._start / (Path(self.run) if self.run is not None else new_run(self.program))
            self._recording = ProgramRecording(folder, say, every=self.every, config={"program": self.program})
            self._models = Models(self._recording.join, lambda failure: failed("recording no further models", failure))
        except Exception as failure:  # a failure of ours is not a failure of the program
            if _rank() == 0:
                failed("not recording", failure)

    def _said(self) -> str | None:
        """Return what was recorded in a line; None if that it was not has been said already."""
        if self._recording is None:
            return None if "torch" in sys.modules else "backsight: nothing recorded: the program did not import torch"
        recorder = self._recording.recorder
        if recorder is None:
            return "backsight: nothing recorded: no module was called"
        if not recorder.run.is_dir():
            return None
        what, run = f"backsight: {_counted(recorder, self.every)} recorded", self._spelt(recorder.run)
        if _ended_non_finite(recorder.run):
            return f"{what}, and weights are NaN or infinite: backsight runs audit {run}"
        return f"{what}: backsight runs show {run}"

    def _spelt(self, run: Path) -> str:
        """Return the folder as one would type it where the program was started."""
        return shlex.quote(str(run.relative_to(self._start) if run.is_relative_to(self._start) else run))


def _counted(recorder: Recorder, every: int) -> str:
    text = f"{recorder.steps:,} steps" if recorder.steps > 1 else "1 step"
    text += f", 1 in {every:,} of them," if every > 1 and recorder.steps > 1 else ""
    return f"{text} ({recorder.dropped:,} were dropped)" if recorder.dropped else text


def _ended_non_finite(folder: Path) -> bool:
    """Whether a weight was not finite at the end. (Other tensors may be so on purpose: a mask of -inf.)"""
    from backsight.runs import open_run

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of damage, which `backsight runs` tells; here it is the program's stderr
        try:
            latest = open_run(folder).latest(as_="numpy")
        except Exception:  # that something was recorded is still worth its line
            return False
    return any(latest["nonfinite"][latest["kind"] == "weight"])


def _rank() -> int:
    """Return which of several processes this is; only the first speaks."""
    rank = os.environ.get("RANK", "0")
    return int(rank) if rank.isdecimal() else 0
