"""`profile`: the block whose time is taken."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from backsight.profiling._torch import device_in, is_profiling, mark, new_profiler, results, trace_of
from backsight.profiling.attribution import Attribution, Meaning
from backsight.profiling.marks import Marks
from backsight.profiling.profile import Profile
from backsight.profiling.row import merged, ranked
from backsight.profiling.subjects import Subjects, found
from backsight.tape import Models, next_sequence_number

_HERE = "backsight profiles this thread"
_one_at_a_time = threading.Lock()


class ProfilingError(RuntimeError):
    """A profile cannot begin, or something outside has ended it."""


class Profiling:
    """A context manager that takes the times of what runs in it; nothing of it stays behind. See `profile`."""

    def __init__(self, subjects: Subjects, earlier: Mapping[tuple[str, int], str | None] | None = None):
        self._subjects: Subjects | None = subjects
        self._earlier = earlier or {}
        self._profile = Profile()
        self._marks: Marks | None = None
        self._profiler: Any = None
        self._begin = 0.0

    def __enter__(self) -> Profile:
        if self._subjects is None:
            raise ProfilingError("this profile runs or has ended; make another with backsight.profile().")
        if not _one_at_a_time.acquire(blocking=False):
            raise ProfilingError("another backsight.profile() runs in this process; only one can at a time.")
        try:
            if is_profiling():
                raise ProfilingError("a profiler of PyTorch runs already, which a second one would end.")
            self._marks = Marks(self._subjects)
            self._subjects = None
            profiler = new_profiler()
            profiler.start()
            self._profiler = profiler
            self._marks.install()
            with mark(_HERE):
                pass
        except BaseException:
            self._end()
            raise
        self._begin = time.perf_counter()
        return self._profile

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        wall = time.perf_counter() - self._begin
        made, profiler, marks = next_sequence_number(), self._profiler, self._marks
        self._end()
        try:
            self._fill(wall, made, profiler, marks)
        except Exception as failure:
            if error is None:
                raise ProfilingError(
                    "PyTorch's profiler has nothing to tell; was another one started or stopped inside of the block?"
                ) from failure
            warnings.warn(f"backsight: no profile, {type(failure).__name__}: {failure}", RuntimeWarning, stacklevel=2)

    def _end(self) -> None:
        """Stop, and remove everything; the profiler first, so that it does not see how."""
        profiler, marks = self._profiler, self._marks
        self._profiler = self._marks = None
        try:
            if profiler is not None:
                profiler.stop()
        finally:
            if marks is not None:
                marks.remove()
            _one_at_a_time.release()

    def _fill(self, wall: float, made: int, profiler: Any, marks: Marks | None) -> None:
        assert marks is not None
        seen = results(profiler)
        trace = trace_of(seen)
        here = next(event for event in trace.events if event.name == _HERE)
        trace.events.remove(here)
        meaning = Meaning(marks.modules, marks.leaves, {here.thread: made}, self._earlier)
        attribution = Attribution(trace, meaning)
        times = self._profile
        times.rows = ranked(merged(attribution.rows()))
        times.wall = wall
        times.outside = max(0.0, wall - attribution.covered[here.thread] * 1e-9)
        times.device = device_in(trace)
        times.finished = True
        times._trace = seen


def profile(model: Models = None) -> Profiling:
    """Take the time of each autograd node, forward and backward, of what runs in a `with` block.

    ```python
    with backsight.profile() as p:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
    print(p)                      # node, module, parameter; self time forward and backward
    print(p.by_module())
    ```
    """
    return Profiling(found(model))
