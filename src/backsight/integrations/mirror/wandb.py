"""Weights & Biases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backsight.extras import needed
from backsight.findings import Finding
from backsight.integrations.mirror.sink import Chart, Sink, sink
from backsight.runs import Run

STEP = "backsight_step"
"""The axis of our charts: W&B's own step belongs to whoever logs beside us."""


@sink("wandb")
class WandB(Sink):
    """Shows a run in the W&B run that is under way, or in one of its own.

    In a run of yours, numbers wait for the next row that you log yourself (`commit=False`), so that the steps of that
    row stay as they are; of several that wait, the last is shown. The x axis is the step of the recording.

    Args:
        run: the W&B run; `wandb.run` if there is one, else a new one, which is ended with the mirror.
        init: for `wandb.init`, where a run is made: `WandB(project="digits", mode="offline")`.
    """

    def __init__(self, run: Any = None, **init: Any):
        self._given, self._init = run, init

    def start(self, run: Run) -> None:
        wandb = needed("wandb")
        self._run = self._given if self._given is not None else wandb.run
        self._is_own = self._run is None
        if self._is_own:
            self._run = wandb.init(**{"name": run.name, "config": run.config, **self._init})
        self._sections: set[str] = set()
        self._histogram = wandb.Histogram
        self._run.define_metric(STEP, hidden=True)

    def charts(self, charts: Sequence[Chart]) -> None:
        rows: dict[int, dict[str, float]] = {}
        for name, steps, _, values in charts:
            self._place(name)
            for step, value in zip(steps, values.tolist(), strict=True):
                if value == value:  # NaN is where there is no number
                    rows.setdefault(step, {})[name] = value
        for step, row in sorted(rows.items()):
            self._log(step, row)

    def histogram(
        self, name: str, step: int, time: float, edges: NDArray[np.float64], counts: NDArray[np.int64]
    ) -> None:
        self._place(name)
        self._log(step, {name: self._histogram(np_histogram=(counts, edges))})

    def finding(self, step: int, time: float, finding: Finding) -> None:
        self._run.summary[f"findings/{finding.code}"] = str(finding)

    def finish(self) -> None:
        if self._is_own:
            self._run.finish()

    def _place(self, name: str) -> None:
        section = name.partition("/")[0]
        if section not in self._sections:
            self._sections.add(section)
            self._run.define_metric(f"{section}/*", step_metric=STEP)

    def _log(self, step: int, row: dict[str, Any]) -> None:
        self._run.log({**row, STEP: step}, commit=self._is_own)
