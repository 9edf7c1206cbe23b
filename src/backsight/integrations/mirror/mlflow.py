"""MLflow, by its client: nothing of the program's own MLflow run changes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from backsight.extras import needed
from backsight.findings import Finding
from backsight.integrations.mirror.sink import Chart, Sink, sink
from backsight.runs import Run

_AT_ONCE = 1000
"""Metrics of one request; a server refuses more (mlflow/utils/validation.py, `MAX_METRICS_PER_BATCH`)."""

_LONGEST = 5000
"""Letters of a tag (as above, `MAX_TAG_VAL_LENGTH`)."""


@sink("mlflow")
class MLflow(Sink):
    """Shows a run in the MLflow run that is under way in this thread, or in one of its own.

    Args:
        run_id: of the MLflow run; by default that under way, else a new one, which is ended with the mirror.
        experiment: the name of the experiment that a new run is in; it is made if there is none.
        tracking_uri: where MLflow keeps its runs, if not where it does otherwise.
    """

    def __init__(self, run_id: str | None = None, *, experiment: str = "Default", tracking_uri: str | None = None):
        self._given, self._experiment, self._uri = run_id, experiment, tracking_uri

    def start(self, run: Run) -> None:
        mlflow = needed("mlflow")
        self._client = mlflow.MlflowClient(self._uri)
        self._metric = mlflow.entities.Metric
        active = mlflow.active_run()
        self._is_own = self._given is None and active is None
        if self._given is not None or active is None:
            self._id = self._given or self._client.create_run(self._experiment_id(), run_name=run.name).info.run_id
        else:
            self._id = active.info.run_id

    def charts(self, charts: Sequence[Chart]) -> None:
        metrics: list[Any] = [
            self._metric(_allowed(name), value, int(time * 1000), step)
            for name, steps, times, values in charts
            for step, time, value in zip(steps, times, values.tolist(), strict=True)
            if value == value  # NaN is where there is no number
        ]
        for first in range(0, len(metrics), _AT_ONCE):
            self._client.log_batch(self._id, metrics=metrics[first : first + _AT_ONCE])

    def finding(self, step: int, time: float, finding: Finding) -> None:
        self._client.set_tag(self._id, f"backsight.{finding.code}", str(finding)[:_LONGEST])

    def finish(self) -> None:
        if self._is_own:
            self._client.set_terminated(self._id)

    def _experiment_id(self) -> str:
        found = self._client.get_experiment_by_name(self._experiment)
        made: str = self._client.create_experiment(self._experiment) if found is None else found.experiment_id
        return made


def _allowed(name: str) -> str:
    """Return the name with what MLflow allows in one (mlflow/utils/validation.py)."""
    return re.sub(r"[^\w\-. /:]", "_", name, flags=re.ASCII)
