"""The observer of `backsight run --record`: records the program's own models, and says at the end where."""

from __future__ import annotations

import os
import shlex
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from backsight.launch.arrival import when_imported
from backsight.launch.ranks import rank
from backsight.launch.voice import failed, say
from backsight.quiet import quietly

if TYPE_CHECKING:
    from backsight.diagnosis import Finding
    from backsight.launch.models import Models
    from backsight.recording import Recorder
    from backsight.recording.program import ProgramRecording


class RecordingObserver:
    """Records each model from its first call on, into one run; without torch it does nothing at all.

    program: the name of the program, for a run that was given none.
    run: the folder of the run.
    every: every how many steps; if not given, so many that recording takes a tenth of the time at most.
    """

    def __init__(self, program: str, *, run: str | None = None, every: int | None = None, quiet: bool = False):
        self.program, self.run, self.every, self.quiet = program, run, every, quiet
        self._start, self._process = Path(), os.getpid()
        self._found: list[Finding] = []
        self._models: Models | None = None
        self._recording: ProgramRecording | None = None

    def start(self) -> None:
        self._start = Path.cwd()  # a program may go elsewhere
        when_imported("torch", self._begin)

    def error(self, error: BaseException) -> None:
        """What was recorded up to an error is recorded."""

    def finish(self) -> None:
        self._close()
        if not self.quiet and not self._is_forked() and rank() == 0 and (line := self._said()):
            say(line)

    @property
    def folder(self) -> Path | None:
        """Where the recording goes, as far as is known; None if there is none, or none that stays."""
        if self._recording is None:
            return None
        return self._recording.folder if self._recording.recorder is None else self._recording.recorder.run

    def keep(self, *findings: Finding) -> None:
        """Keep with the recording what was found while the program ran."""
        self._found += findings

    def led_into(self, finding: Finding) -> Finding:
        """Lead from a finding first to the recording, if there is one that stays: to run again takes as long."""
        recorder = self._recording.recorder if self._recording is not None else None
        if recorder is None or self._is_forked():
            return finding
        from dataclasses import replace

        finding = self._in_this_recording(finding, recorder.run)
        if finding.code != "BS108" or self.folder is None:
            return finding
        command = f"backsight runs audit {self._spelt(recorder.run)}"
        first = (
            f"The recording shows where it began: {command} names the first tensor with NaN or infinity, and its step."
        )
        return replace(finding, fix=f"{first} {finding.fix}")

    def _in_this_recording(self, finding: Finding, run: Path) -> Finding:
        """Name this recording where a finding advises to make one."""
        from dataclasses import replace

        from backsight.diagnosis.live.deaf import IN_A_RECORDING

        return replace(finding, fix=finding.fix.replace(IN_A_RECORDING, f"`{self._shown_by(run)}`"))

    def _shown_by(self, run: Path) -> str:
        """Return what shows the recording, in one word or command."""
        return f"backsight runs show {self._spelt(run)}"

    def _is_forked(self) -> bool:
        """Whether this process was forked off the program: that one speaks of it, and keeps what both of them know."""
        return os.getpid() != self._process

    def _close(self) -> None:
        if self._models is not None:
            self._models.stop()
        if self._recording is not None:
            self._recording.close()
            self._write_found()

    def _write_found(self) -> None:
        recorder = self._recording.recorder if self._recording is not None else None
        if recorder is None or not self._found or self._is_forked():
            return
        from backsight.runs import FOUND, add_event

        held = [self._in_this_recording(each, recorder.run).to_dict() for each in self._found]
        try:
            add_event(recorder.run, rank(), FOUND, findings=held)
        except OSError:  # the folder is gone, or the disk is full: it was said nevertheless
            pass

    def _begin(self) -> None:
        try:
            from backsight.launch.models import Models
            from backsight.recording.program import ProgramRecording

            config = {"program": self.program}
            recording = ProgramRecording(self._folder(), say, every=self.every or "auto", config=config)
            no_more = partial(failed, "recording no further models")
            self._recording = recording
            self._models = Models(recording.join, no_more, lambda: recording.steps)
            recording.beside = (self._models,)
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
            return self._said_of_parts(self._recording.of_parts) or (
                "backsight: nothing recorded: backsight saw no call of a model and no optimizer step"
            )
        if not recorder.run.is_dir():
            return None
        steps, non_finite = _read(recorder.run)
        if steps == GONE:
            return f"backsight: there is no recording in {self._spelt(recorder.run)} anymore"
        what, run = f"backsight: {counted(recorder, steps, adapts=self.every is None)} recorded", recorder.run
        if self._models is not None and (more := self._models.left_out):
            what += f", without inputs and outputs of {more:,} modules after the first ones that the program calls"
        if non_finite:
            return f"{what}, and weights are NaN or infinite: {self._see('audit', run)}"
        if new := _found_in(run, {(each.code, each.title) for each in self._found}):
            new = new.replace(" ", " more ", 1) if self._found else new
            return f"{what}; an audit of the recording finds {new}: {self._see('audit', run)}"
        return f"{what}: {self._see('show', run)}"

    def _said_of_parts(self, run: Path) -> str | None:
        """Return what processes recorded that were forked off this one, which itself recorded nothing."""
        steps, _ = _read(run) if run.is_dir() else (None, False)
        if steps is None or steps == GONE:
            return None
        return f"backsight: {_steps(steps)} of forked processes recorded: {self._see('show', run)}"

    def _see(self, command: str, run: Path) -> str:
        """Return what to type to see the recording."""
        return f"backsight runs {command} {self._spelt(run)}"

    def _spelt(self, run: Path) -> str:
        """Return the folder as one would type it where the program was started."""
        return shlex.quote(str(run.relative_to(self._start) if run.is_relative_to(self._start) else run))


def counted(recorder: Recorder, held: int | None = None, *, adapts: bool = False) -> str:
    """Say what a closed recorder has recorded: how many steps of how many, and of what they were made.

    A step that was recorded and has not ended is one of them, as it is one of `run.steps`; an evaluation after the last
    step is none.
    """
    from backsight.recording.schedule import SHARE

    last, recorded = recorder.after_the_last, recorder.recorded - recorder.dropped
    steps = max(recorder.steps + (last == "step"), 1)
    if held is not None and held < recorded:
        return f"only {held:,} of {_steps(steps)}"
    if last == "evaluation" and recorder.steps:
        recorded -= 1
    text = _steps(steps)
    if recorder.optimizer_steps > recorder.steps:
        text += f" ({recorder.optimizer_steps:,} optimizer steps)"
    asides = []
    if not recorder.steps:
        asides.append("which did not end")
    elif last == "step":
        asides.append("the last of which did not end")
    if recorded < steps and adapts:
        at_the_end = f"1 in {recorder.every:,} at the end, to take at most {SHARE:.0%} of the time"
        asides.append(f"{recorded:,} of them ({at_the_end})")
    elif recorded < steps:
        asides.append(f"1 in {recorder.every:,} of them")
    text = ", ".join([text, *asides]) + "," * bool(asides)
    return f"{text} ({recorder.dropped:,} were dropped)" if recorder.dropped else text


def _steps(number: int) -> str:
    return "1 step" if number == 1 else f"{number:,} steps"


GONE = -1
"""In place of a number of steps: there is no run."""


def _read(folder: Path) -> tuple[int | None, bool]:
    """Return how many steps there are in a run, None if that cannot be read, and whether weights ended non-finite.

    (Other tensors may be so on purpose: a mask of -inf.)
    """
    from backsight.runs import RunError, open_run

    with quietly():  # of damage, which `backsight runs` tells; here it is the program's stderr
        try:
            run = open_run(folder)
            latest = run.latest(as_="numpy")
            return len(run.steps), any(latest["nonfinite"][latest["kind"] == "weight"])
        except RunError:
            return GONE, False
        except Exception:  # that something was recorded is still worth its line
            return None, False


_MOST_ROWS = 1_000_000
"""Rows of a recording beyond which it is not audited at the end: a program that has ended should end."""


def _found_in(folder: Path, said: set[tuple[str, str]]) -> str:
    """Return what is found in a run beside what was said, as `1 error and 2 warnings`; empty if nothing is, or if it
    is large."""
    from backsight.runs import open_run
    from backsight.text import counted, listed

    try:
        with quietly():
            run = open_run(folder)
            if len(run.steps) * len(run.tensors) > _MOST_ROWS:
                return ""
            new = [each.severity for each in run.audit() if (each.code, each.title) not in said]
    except Exception:  # that something was recorded is still worth its line
        return ""
    return listed([counted(new.count(grave), grave) for grave in ("error", "warning", "note") if grave in new])
