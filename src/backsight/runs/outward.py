"""What a run becomes elsewhere: tables and scalars in files, findings, reports and drawings."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from backsight.runs.export import export, tables
from backsight.runs.gathering import Steps
from backsight.runs.ranks import Ranks
from backsight.runs.tensorboard import write_scalars

if TYPE_CHECKING:
    from backsight.diagnosis import Report
    from backsight.runs.run import Run

TENSORBOARD = ("mean", "std", "min", "max", "l2", "zero_fraction", "nonfinite")
"""The statistics that TensorBoard is given, if no others are asked for."""


class Outward:
    """What `Run` gives to others.

    Findings, reports and drawings are made in rooms that stand above this one, which must not need them: they are
    imported when somebody asks, here and nowhere else, and the import contract names this file.
    """

    _ranks: Ranks

    def audit(self) -> Report:
        """Look for what went wrong, by rules, and return a `backsight.Report`.

            print(run.audit())

        The rules and their codes (BS301 and on) are listed in `docs/codes/`.
        """
        from backsight.diagnosis import audit_run

        return audit_run(cast("Run", self))

    def to_report(self, path: str | os.PathLike[str]) -> Path:
        """Write one HTML file that shows the run by itself, and return its path.

            run.to_report("first.html")

        Raises:
            ValueError: if the file is not called .html.
            OSError: if it cannot be written.
        """
        from backsight.viewer import to_report

        return to_report(cast("Run", self), path)

    def plot(self, tensor: str, stat: str, *, kind: str | None = None, steps: Steps = None, ax: Any = None) -> Any:
        """Draw one statistic of one tensor over the steps with matplotlib, and return the axes.

            run.plot("layer1.weight", "grad_norm")

        tensor, stat, kind, steps: as in `series`; ax: where to draw, a new figure if not given.

        Raises:
            NotInRun: as `series`.
            ImportError: if matplotlib is not installed.
        """
        from backsight.viewer import plot

        return plot(cast("Run", self), tensor, stat, kind=kind, steps=steps, ax=ax)

    def plot_heatmap(self, stat: str = "norm", kind: str = "grad", *, steps: Steps = None, ax: Any = None) -> Any:
        """Draw `heatmap` with matplotlib, tensors in the order of the modules, and return the axes.

            run.plot_heatmap("norm", "grad")

        Raises:
            NotInRun: if the run does not hold it.
            ImportError: if matplotlib is not installed.
        """
        from backsight.viewer import plot_heatmap

        return plot_heatmap(cast("Run", self), stat, kind, steps=steps, ax=ax)

    def export(self, path: str | os.PathLike[str], *, by_rank: bool = False) -> Path:
        """Write all rows, tensor by tensor, to one file, and return its path.

            run.export("first.parquet")

        path: ends in .parquet, .csv or .jsonl; a file that is there is replaced when the new one is whole.
        by_rank: whether each rank has rows of its own, and a column `rank` says which; else they are merged, and a
            column `ranks` says of how many.

        Raises:
            ValueError: if it ends otherwise.
            ImportError: if it is to be Parquet and pyarrow is not installed.
        """
        export(tables(self._ranks.now(), self._ranks.known(), by_rank), Path(path))
        self._ranks.warn()
        return Path(path)

    def to_tensorboard(self, logdir: str | os.PathLike[str], stats: Sequence[str] = TENSORBOARD) -> Path:
        """Write scalars `kind/tensor/statistic` as an event file of TensorBoard, which need not be installed.

            run.to_tensorboard("logs/first", stats=["mean", "l2"])

        Several calls in a step are `kind/tensor/statistic/call 0`, `.../call 1`, ...; of a gradient, weight, buffer,
        state or update the last one stands without a number as well. TensorBoard's scalars have single precision.

        Raises:
            NotInRun: if there is no such statistic.
        """
        known = self._ranks.known()
        known.check(stats)
        steps, ended = self._ranks.times()
        times = dict(zip(steps.tolist(), ended.tolist(), strict=True))
        path = write_scalars(Path(logdir), self._ranks.now(), known, stats, times, self._ranks.created)
        self._ranks.warn()
        return path
