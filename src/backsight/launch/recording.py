"""The observer of `backsight run --record`: records the program's own models, and says at the end where."""

from __future__ import annotations

import shlex
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from backsight.launch.arrival import when_imported
from backsight.launch.ranks import rank
from backsight.launch.voice import failed, say

if TYPE_CHECKING:
    from backsight.launch.models import Models
    from backsight.recording.program import ProgramRecording
    from backsight.recording.recorder import Recorder


ONE_STEP = """\
  It is one step as no optimizer ended any. A loop without an optimizer ends its steps itself:
  rec = backsight.record(model, run="runs/NAME") before it, and rec.step() at the end of each iteration."""


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
        self._close()
        if not self.quiet and rank() == 0 and (line := self._said()):
            say(line)

    def _close(self) -> None:
        if self._models is not None:
            self._models.stop()
        if self._recording is not None:
            self._recording.close()

    def _begin(self) -> None:
        try:
            from backsight.launch.models import Models
            from backsight.recording.program import ProgramRecording

            self._recording = ProgramRecording(self._folder(), say, every=self.every, config={"program": self.program})
            self._models = Models(self._recording.join, lambda failure: failed("recording no further models", failure))
        except Exception as failure:  # a failure of ours is not a failure of the program
            if rank() == 0:
                failed("not recording", failure)

    def _folder(self) -> Path:
        from backsight.recording.environment import new_run

        if self.run is not None:
            return self._start / self.run
        try:
            return self._start / new_run(self.program)
        except ValueError as failure:
            raise ValueError(f"{failure}: --into runs/NAME") from None

    def _said(self) -> str | None:
        """Return what was recorded in a line; None if that it was not has been said already."""
        if self._recording is None:
            return None if "torch" in sys.modules else "backsight: nothing recorded: the program did not import torch"
        recorder = self._recording.recorder
        if recorder is None:
            return "backsight: nothing recorded: no module was called"
        if not recorder.run.is_dir():
            return None
        steps, non_finite = _read(recorder.run)
        what, run = f"backsight: {_counted(recorder, self.every, steps)} recorded", recorder.run
        if not recorder.steps:
            return f"{what}: {self._see('show', run)}\n{ONE_STEP}"
        if non_finite:
            return f"{what}, and weights are NaN or infinite: {self._see('audit', run)}"
        return f"{what}: {self._see('show', run)}"

    def _see(self, command: str, run: Path) -> str:
        """Return what to type to see the recording."""
        return f"backsight runs {command} {self._spelt(run)}"

    def _spelt(self, run: Path) -> str:
        """Return the folder as one would type it where the program was started."""
        return shlex.quote(str(run.relative_to(self._start) if run.is_relative_to(self._start) else run))


def _counted(recorder: Recorder, every: int, recorded: int | None) -> str:
    due = -(-recorder.steps // every) - recorder.dropped
    if recorded is not None and recorded < due:
        return f"only {recorded:,} of {recorder.steps:,} steps"
    text = f"{recorder.steps:,} steps" if recorder.steps > 1 else "1 step"
    text += f", 1 in {every:,} of them," if every > 1 and recorder.steps > 1 else ""
    return f"{text} ({recorder.dropped:,} were dropped)" if recorder.dropped else text


def _read(folder: Path) -> tuple[int | None, bool]:
    """Return how many steps there are in a run, None if that cannot be read, and whether weights ended non-finite.

    (Other tensors may be so on purpose: a mask of -inf.)
    """
    from backsight.runs import open_run

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of damage, which `backsight runs` tells; here it is the program's stderr
        try:
            run = open_run(folder)
            latest = run.latest(as_="numpy")
            return len(run.steps), any(latest["nonfinite"][latest["kind"] == "weight"])
        except Exception:  # that something was recorded is still worth its line
            return None, False
