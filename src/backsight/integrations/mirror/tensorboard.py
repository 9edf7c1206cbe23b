"""TensorBoard, of which nothing needs to be installed: its event files are written here."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from backsight.findings import Finding
from backsight.integrations.mirror.sink import Chart, Sink, sink
from backsight.runs import Run
from backsight.runs.tensorboard import EventFile


@sink("tensorboard")
class TensorBoard(Sink):
    """Shows a run as scalars, histograms of log2 of magnitudes, and texts.

    folder: where the event file goes; `tensorboard/NAME` beside the folder of the run, if not given.
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None):
        self.folder = None if folder is None else Path(folder)

    def start(self, run: Run) -> None:
        # Not into the run itself, which is a folder of ranks and nothing else.
        self._events = EventFile(self.folder or run.path.parent / "tensorboard" / run.name, run.created)

    def charts(self, charts: Sequence[Chart]) -> None:
        for name, steps, times, values in charts:
            there = np.flatnonzero(~np.isnan(values)).tolist()
            self._events.scalars(name, [steps[k] for k in there], [times[k] for k in there], values[there])
        self._events.flush()

    def histogram(
        self, name: str, step: int, time: float, edges: NDArray[np.float64], counts: NDArray[np.int64]
    ) -> None:
        self._events.histogram(name, step, time, edges, counts)
        self._events.flush()

    def finding(self, step: int, time: float, finding: Finding) -> None:
        self._events.text(f"findings/{finding.code}", step, time, f"```\n{finding}\n```")
        self._events.flush()

    def finish(self) -> None:
        self._events.close()
