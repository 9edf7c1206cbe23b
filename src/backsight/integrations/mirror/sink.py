"""`Sink`: somewhere that a mirror shows a run; and the registry of those that go by a name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from backsight.findings import Finding
from backsight.runs import Run


class Chart(NamedTuple):
    """One number over the steps, as far as it is new: `gradient_norm/encoder.0`.

    steps: of the training, rising; times: when each ended, in seconds since 1970; values: may be NaN or infinite.
    """

    name: str
    steps: Sequence[int]
    times: Sequence[float]
    values: NDArray[np.float64]


class Sink:
    """Somewhere that a run is shown; a subclass does what its place can do, and the rest is not shown there.

    ```python
    @sink("console")
    class Console(Sink):
        def charts(self, charts):
            for chart in charts:
                print(chart.name, chart.values[-1])

    Mirror("runs/first", "console")
    ```

    `start` is called by whoever makes the mirror, and may raise; all else by the mirror's thread, where a sink that
    raises is told of once, and dropped.
    """

    def start(self, run: Run) -> None:
        """Begin to show a run."""

    def charts(self, charts: Sequence[Chart]) -> None:
        """Show what is new."""

    def histogram(
        self, name: str, step: int, time: float, edges: NDArray[np.float64], counts: NDArray[np.int64]
    ) -> None:
        """Show a histogram of a step: [n + 1] edges, [n] counts."""

    def finding(self, step: int, time: float, finding: Finding) -> None:
        """Show something that the audit of the recording has found; each comes once."""

    def finish(self) -> None:
        """End: the run was closed, or is not followed any more."""


SINKS: dict[str, type[Sink]] = {}
"""Those that go by a name."""

_Class = TypeVar("_Class", bound=type[Sink])


def sink(name: str) -> Callable[[_Class], _Class]:
    """Register a sink, which can be made without an argument, under a name."""

    def register(kind: _Class) -> _Class:
        SINKS[name] = kind
        return kind

    return register
