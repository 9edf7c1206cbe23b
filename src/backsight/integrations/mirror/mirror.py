"""`Mirror`: follows a run directory, and shows what comes into it elsewhere."""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from backsight.integrations.mirror.digest import EDGES, Digest, has_histograms, is_point
from backsight.integrations.mirror.sink import SINKS, Chart, Sink
from backsight.recording import Recorder
from backsight.recording.voice import Voice, told
from backsight.runs import Run, open_run

PAUSE = 5.0
"""Seconds between two looks at the run."""

SHARE = 0.02
"""The part of the time that looking may take: after a look that took long, the pause is longer."""

FIRST_AUDIT = 60.0
"""Seconds after which the recording is audited first; then after twice as long, and so on, and at the end."""

AT_ONCE = 256
"""Steps that are read at a time."""

PATIENCE = 60.0
"""Seconds that `close` waits for what is still to be sent."""

Sinks: TypeAlias = str | Sink | Iterable[str | Sink]


class Mirror:
    """Shows a run elsewhere while it is recorded, or afterwards.

    ```python
    with bs.record(model, optimizer) as rec, Mirror(rec, ["tensorboard", "wandb"]):
        train()

    Mirror("runs/first", MLflow(experiment="digits")).close()     # a run that has ended, as a whole
    ```

    A thread reads the run directory and writes to the sinks; nothing waits for it but `close`, for a minute at most. It
    can as well run in another process than the training. A sink that fails is told of once, with a `RecordingWarning`,
    and dropped. With several ranks, mirror from one of them, or from outside: a mirror shows the ranks merged.

    Args:
        run: a recorder, a run, or the folder of one.
        to: "tensorboard", "wandb", "mlflow", a `Sink`, or several of them.
        pause: seconds between two looks at the run.

    Raises:
        RunError: if there is no such run.
        ValueError: if there is no such sink.
        ImportError: if what a sink needs is not installed.
    """

    def __init__(self, run: Recorder | Run | str | os.PathLike[str], to: Sinks, *, pause: float = PAUSE):
        self.run = run if isinstance(run, Run) else open_run(run.run if isinstance(run, Recorder) else run)
        self._flush: Callable[[], None] = run.flush if isinstance(run, Recorder) else _nothing
        self._sinks = [SINKS[each]() if isinstance(each, str) else each for each in chosen(to)]
        self._digest = Digest(self.run)
        self._voice = Voice()
        self._pause = pause
        self._positions, self._seen = 0, 0
        self._marked: dict[str, int] = {}
        self._found: set[tuple[str, str]] = set()
        self._begun, self._next_audit = time.monotonic(), FIRST_AUDIT
        self._ending = threading.Event()
        for sink in self._sinks:
            sink.start(self.run)
        self._thread = threading.Thread(target=self._follow, name="backsight-mirror", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def close(self) -> None:
        """Send what is recorded by now, and end."""
        atexit.unregister(self.close)
        if self._ending.is_set():
            return
        self._flush()
        self._ending.set()
        self._thread.join(PATIENCE)
        if self._thread.is_alive():
            names = ", ".join(map(_name, self._sinks))
            self._voice.say("slow", f"{names} did not take the rest of {self.run.path} within {PATIENCE:g} s.")

    def __enter__(self) -> Mirror:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Mirror of {str(self.run.path)!r} in {', '.join(map(_name, self._sinks)) or 'nothing'}>"

    def _follow(self) -> None:
        wait = self._pause
        while True:
            is_last = self._ending.wait(wait)
            began = time.monotonic()
            try:
                self._look(is_last)
            except Exception as failure:  # of the run, which may be damaged, or of ours
                self._voice.say("mirror", f"{self.run.path} is no longer mirrored: {told(failure)}")
                is_last = True
            wait = max(self._pause, (time.monotonic() - began) / SHARE)
            if is_last or not self._sinks:
                self._each("finish")
                return

    def _look(self, is_last: bool) -> None:
        """Show what has come since the last look."""
        steps, times = self._steps(is_last)
        fresh = [k for k in range(self._positions, len(steps)) if is_point(k)]
        self._positions = max(self._positions, len(steps))
        for first in range(0, len(fresh), AT_ONCE):
            few = np.array(fresh[first : first + AT_ONCE])
            charts = self._digest.charts(steps[few], times[few])
            self._each("charts", charts)
            for k in filter(has_histograms, few.tolist()):
                self._histograms(int(steps[k]), float(times[k]))
        self._marks()
        if is_last or time.monotonic() - self._begun > self._next_audit:
            self._next_audit *= 2
            self._audit(int(steps[-1]) if len(steps) else 0)

    def _steps(self, is_last: bool) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the steps that are whole, with the times at which they ended: of all ranks, but for the newest one."""
        steps, times = self.run.times()
        if is_last or not len(steps):
            return steps, times
        bound = int(steps[-1])
        if self.run.world > 1:
            ends = [-1 if end is None else end for end in self.run.last_steps.values()]
            bound = min(ends) if len(ends) == self.run.world else -1
        whole = steps < bound
        return steps[whole], times[whole]

    def _histograms(self, step: int, at: float) -> None:
        for name, counts in self._digest.histograms(step):
            self._each("histogram", name, step, at, EDGES, counts)

    def _marks(self) -> None:
        """Show the tags that are numbers, such as a loss, as often as all else."""
        charts = []
        for name, (steps, values) in self.run.tags()[0].items():
            fresh = [k for k in range(self._marked.get(name, 0), len(steps)) if is_point(k)]
            self._marked[name] = len(steps)
            if fresh:
                charts.append(Chart(f"mark/{name}", steps[fresh].tolist(), [time.time()] * len(fresh), values[fresh]))
        if charts:
            self._each("charts", charts)

    def _audit(self, step: int) -> None:
        for finding in self.run.audit():
            key = finding.code, finding.title
            if finding.severity != "note" and key not in self._found:
                self._found.add(key)
                self._each("finding", step, time.time(), finding)

    def _each(self, method: str, *given: Any) -> None:
        """Call a method of each sink; one that fails is dropped."""
        for sink in list(self._sinks):
            try:
                getattr(sink, method)(*given)
            except Exception as failure:  # of a server, a network, a disk: the training and the others go on
                self._sinks.remove(sink)
                self._voice.say(
                    f"sink {id(sink)}",
                    f"{_name(sink)} no longer shows {self.run.path}; training continues: {told(failure)}",
                )


def chosen(to: Sinks) -> list[str | Sink]:
    """Return the sinks that were given, one or several.

    Raises:
        ValueError: if there is none of a name.
    """
    sinks = [to] if isinstance(to, (str, Sink)) else list(to)
    for each in sinks:
        if isinstance(each, str) and each not in SINKS:
            raise ValueError(f"there is no sink {each!r}; choose from {', '.join(SINKS)}.")
    return sinks


def _name(sink: Sink) -> str:
    return type(sink).__name__


def _nothing() -> None:
    return
