"""The observer of `backsight run --trace`: writes the operations of some steps, and says at the end where."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from backsight.launch.arrival import when_imported
from backsight.launch.ranks import rank
from backsight.launch.voice import failed, say

if TYPE_CHECKING:
    from backsight.launch.recording import RecordingObserver
    from backsight.traces import Tracer


class TracingObserver:
    """Traces steps of a program; without torch it does nothing at all.

    program: the name of the program, for a trace that was given no folder.
    into: the folder of the trace.
    recording: what records the program too: its trace lies in the folder of the run, where `backsight view` finds it.
    """

    def __init__(
        self,
        program: str,
        steps: Sequence[int],
        *,
        into: str | None = None,
        recording: RecordingObserver | None = None,
        values: bool = False,
        quiet: bool = False,
    ):
        self._program, self._steps, self._into, self._values, self._quiet = program, steps, into, values, quiet
        self._recording = recording
        self._start, self._process = Path(), os.getpid()
        self._tracer: Tracer | None = None

    def start(self) -> None:
        self._start = Path.cwd()  # a program may go elsewhere
        when_imported("torch", self._begin)

    def error(self, error: BaseException) -> None:
        """What was traced up to an error is traced."""

    def finish(self) -> None:
        if self._tracer is not None:
            self._tracer.close()
            self._join_the_recording(self._tracer)
        if not self._quiet and os.getpid() == self._process and rank() == 0 and (line := self._said()):
            say(line)

    def _begin(self) -> None:
        try:
            from backsight.surface import require
            from backsight.traces.tracer import Tracer

            require("traces")
            tracer = Tracer(
                self._folder(),
                self._steps,
                values=self._values,
                say=lambda text: say(f"backsight: {text}"),
                summaries=True,
            )
            tracer.start(at_call=True)
            self._tracer = tracer
        except Exception as failure:  # a failure of ours is not a failure of the program
            if rank() == 0:
                failed("not tracing", failure)

    def _folder(self) -> Path:
        """Return where the trace goes: of several processes, where nothing tells all the same time, without it."""
        from backsight.recording.environment import moment
        from backsight.runs import TRACE

        if self._recording is not None and (run := self._recording.folder) is not None:
            return run / TRACE
        if self._into:
            return self._start / self._into
        when = moment()
        return self._start / "traces" / (self._program if when is None else f"{when}-{self._program}")

    def _join_the_recording(self, tracer: Tracer) -> None:
        """Move the trace into the run, where that went to another folder than the trace, as the first was taken."""
        from backsight.runs import TRACE

        run = self._recording.folder if self._recording is not None else None
        if run is None or not run.is_dir() or tracer.path.parent == run or os.getpid() != self._process:
            return
        file = tracer.path / f"{rank()}.trace"
        try:
            (run / TRACE).mkdir(exist_ok=True)
            if file.exists() and not (run / TRACE / file.name).exists():
                file.rename(run / TRACE / file.name)
                left, tracer.path = tracer.path, run / TRACE
                left.rmdir()  # which fails where other ranks have yet to move theirs
        except OSError:
            pass  # it is said where the trace is

    def _said(self) -> str | None:
        if self._tracer is None:
            return None if "torch" in sys.modules else "backsight: nothing traced: the program did not import torch"
        tracer = self._tracer
        if not tracer.traced:
            ended = f"{tracer.step_number:,} step{'s' * (tracer.step_number != 1)} of optimizers ended"
            asked = f"step{'s' * (len(tracer.steps) != 1)} {', '.join(map(str, tracer.steps))}"
            counts = "; steps count from 0" if tracer.step_number else ""
            return f"backsight: nothing traced: only {ended}, and --trace asks for {asked}{counts}"
        path = tracer.path.relative_to(self._start) if tracer.path.is_relative_to(self._start) else tracer.path
        return f"backsight: {tracer.traced:,} operations traced: backsight diff OTHER {shlex.quote(str(path))}"
