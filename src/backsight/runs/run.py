"""`Run`: a recording as its readers see it, finished or still being written."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backsight.runs import frame, gathering, journal, places, tags
from backsight.runs.catalogue import Catalogue, Names, Tensor, catalogue, metric_of
from backsight.runs.derived import derivation
from backsight.runs.documents import Documents, Stored
from backsight.runs.errors import DamagedRun, NotARun, NotInRun, RunError, RunNotFound, RunWarning
from backsight.runs.export import export, tables
from backsight.runs.frame import As
from backsight.runs.gathering import Query
from backsight.runs.heatmap import Heatmap, heatmaps
from backsight.runs.journal import Event, Mark
from backsight.runs.nonfinite import NonFinite, first_nonfinite
from backsight.runs.ordering import newest
from backsight.runs.rank import Damage, Rank
from backsight.runs.schema import joined
from backsight.runs.segments import within
from backsight.runs.series import Histograms, Series, thinned
from backsight.runs.tensorboard import write_scalars

Steps = slice | int | None

TENSORBOARD = ("mean", "std", "min", "max", "l2", "zero_fraction", "nonfinite")
"""The statistics that TensorBoard is given, if no others are asked for."""


class Run:
    """A recording. Every question is answered with what is there now: a run that is being written may be asked again.

        run = bs.open_run("runs/first")
        run.frame(tensor="fc.weight", stat=["mean", "std"], steps=slice(0, 100))
        run.series("fc.weight", "grad_norm", points=2000)

    With several ranks the answers are merged exactly, unless one is asked for by `rank=`. What is damaged is skipped,
    warned of once (`RunWarning`), and counted in `damage`. Several threads may ask at once.

    Attributes:
        path: the folder of the run.

    Raises:
        RunError: as `open_run`, which says more of what is there instead.
    """

    def __init__(self, path: str | os.PathLike[str]):
        self.path = Path(path)
        self._held: dict[int, Rank] = {}
        self._unreadable: dict[int, RunError] = {}
        self._warned = False
        self._catalogue: tuple[dict[int, tuple[int, int]], Catalogue] | None = None
        self._documents = Documents()
        self._ranks()

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks that have begun and can be read; `world` says how many there should be."""
        return tuple(self._ranks())

    @property
    def world(self) -> int:
        return int(self._first.manifest["world"])

    @property
    def created(self) -> float:
        """When the first of its ranks began, in seconds since 1970."""
        return min(float(rank.manifest["created"]) for rank in self._held.values())

    @property
    def config(self) -> dict[str, Any]:
        return dict(self._first.manifest["config"])

    @property
    def environment(self) -> dict[str, Any]:
        return dict(self._first.manifest["environment"])

    @property
    def tree(self) -> Any:
        """The modules, as the lowest rank stored them; None if it has not yet."""
        return self._first.tree

    @property
    def graph(self) -> Any:
        """The autograd graph, a `backsight.Graph`, of the first step that was recorded; None if the run holds none.

            run.graph.draw("first.svg")

        Raises:
            DamagedRun: if it is damaged.
        """
        return None if (stored := self.stored_graph()) is None else stored.value

    @property
    def memory(self) -> Any:
        """The memory of a step as `backsight.measure_memory` measured it, if `rec.memory` was given it; else None.

            print(run.memory.at_peak)

        Raises:
            DamagedRun: if it is damaged.
        """
        return None if (stored := self.stored_memory()) is None else stored.value

    def stored_graph(self) -> Stored | None:
        """Return `graph` as `value`, with its `step`."""
        return self._documents.graph(self._ranks())

    def stored_memory(self) -> Stored | None:
        """Return `memory` as `value`, with its `step`."""
        return self._documents.memory(self._ranks())

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The tensors in the order in which they were first seen."""
        return tuple(self._known().tensors.values())

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of the user's own metrics."""
        return tuple(self._known().metrics)

    @property
    def steps(self) -> NDArray[np.int64]:
        """The steps that were recorded, in order."""
        found = [{"step": rank.table("S")["step"]} for rank in self._ranks().values()]
        # Not np.unique, which hashes: for a million steps that are in order already it takes half a second.
        return newest(joined("S", found), ("step",))["step"]

    @property
    def marks(self) -> tuple[Mark, ...]:
        """The tags, by step."""
        return journal.marks(self._ranks())

    def times(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return `steps`, and when each ended on the rank that was first, in seconds since 1970."""
        held = joined("S", [rank.table("S") for rank in self._ranks().values()])
        in_order = np.lexsort((held["time"], held["step"]))
        step, time = held["step"][in_order], held["time"][in_order]
        first = np.append(True, step[1:] != step[:-1])[: len(step)]
        return step[first], time[first]

    def tags(
        self, rank: int | None = None
    ) -> tuple[dict[str, tuple[NDArray[np.int64], NDArray[np.float64]]], dict[str, list[tuple[int, Any]]]]:
        """Return `marks` by tag: those that are numbers as steps and values, the others as (step, value) of changes.

        Of a step that was tagged several times what was said last holds. This is what is fast for a million steps.
        """
        held = [each.tags.read() for number, each in self._ranks().items() if rank in (None, number)]
        return tags.numbers(held), tags.words(held)

    @property
    def events(self) -> tuple[Event, ...]:
        """What else happened, by time."""
        return journal.events(self._ranks())

    @property
    def damage(self) -> Damage:
        """What reading has skipped so far; ranks that cannot be read at all count as a block each."""
        return sum((rank.damage for rank in self._held.values()), Damage(blocks=len(self._unreadable)))

    def frame(
        self,
        tensor: Names = None,
        stat: str | Sequence[str] | None = None,
        kind: str | Sequence[str] | None = None,
        steps: Steps = None,
        rank: int | None = None,
        as_: As = "pandas",
    ) -> Any:
        """Return the rows as a table, in the order in which they came about; each call of a step has its own.

            run.frame(kind="grad", stat="norm", steps=slice(100, 200))

        tensor: a name, several, or a compiled pattern for the whole name.
        stat: names of statistics and metrics; all of them if not given.
        steps: a step, or a slice of steps: `slice(0, 1000, 10)` is every tenth of the first thousand.
        rank: only this rank's rows; by default those of all ranks merged, and `ranks` says of how many.
        as_: "pandas", "arrow", "polars", or "numpy" for a dict of arrays, which needs nothing installed.

        Raises:
            NotInRun: if the run does not hold what was asked for.
        """
        known = self._known()
        query = Query(tuple(known.chosen(tensor, kind)), _slice(steps), self._checked(rank))
        stats = [stat] if isinstance(stat, str) else stat
        known.check(stats or ())
        found = frame.table(self._ranks(), known, query, stats)
        self._warn()
        return frame.presented(found, as_)

    def latest(self, rank: int | None = None, as_: As = "pandas") -> Any:
        """Return the rows of the newest step that any rank has written, as `frame` does.

            run.latest()[["tensor", "kind", "l2"]]

        Raises:
            NotInRun: if there is no such rank.
        """
        last = [each.last_step() for k, each in self._ranks().items() if rank in (None, k)]
        newest = max((step for step in last if step is not None), default=0)
        return self.frame(steps=newest, rank=rank, as_=as_)

    def series(
        self,
        tensor: str,
        stat: str,
        *,
        kind: str | None = None,
        steps: Steps = None,
        rank: int | None = None,
        points: int = 2000,
    ) -> Series:
        """Return one statistic of one tensor over the steps, thinned to so many points; least and greatest stay.

            run.series("layer1.weight", "grad_norm")      # the norm of what was recorded as kind "grad"

        Ranks are merged exactly, as if they were one tensor, and so are the calls of one step: inputs and outputs of
        several calls are different data. Of a gradient, weight, buffer, state or update the last call of the step is
        taken: a gradient that is accumulated is a running sum, which `frame` shows pass by pass.

        stat: a statistic or a metric; "norm" is another name of "l2", and "grad_norm" that of kind "grad".
        kind: which, where the tensor was recorded as several.
        steps, rank: as in `frame`.
        points: how many to keep, at least 4.

        Raises:
            NotInRun: if there is no such tensor, statistic or rank, or it was recorded as several kinds.
            ValueError: if there are to be fewer than 4 points.
        """
        known, ranks = self._known(), self._ranks()
        key, stat = known.one(tensor, stat, kind)
        query = Query((key,), _slice(steps), self._checked(rank))
        if stat not in known.metrics and (derive := derivation(stat)) is not None:
            rows = gathering.statistics(ranks, known, query, ("step",))
            values = derive(rows).astype("<f8")
        else:
            metric, element = (stat, -1) if stat in known.metrics else metric_of(stat)
            rows = gathering.values(ranks, known, query, metric, element, ("step",))
            values = rows["value"]
        self._warn()
        at, kept = thinned(rows["step"], values, points)
        return Series(*key, stat, at, kept, len(values), int(np.isnan(values).sum()))

    def histograms(
        self, tensor: str, *, kind: str | None = None, steps: Steps = None, rank: int | None = None
    ) -> Histograms:
        """Return the histograms of a tensor; those of the ranks are added, and calls are taken as in `series`.

            run.histograms("layer1.weight", kind="grad").counts.sum(axis=0)

        Raises:
            NotInRun: as `series`.
        """
        known = self._known()
        key, _ = known.one(tensor, "count", kind)
        query = Query((key,), _slice(steps), self._checked(rank))
        rows = gathering.histograms(self._ranks(), known, query, ("step",))
        self._warn()
        return Histograms(*key, rows["step"], rows["counts"], rows["sampled"])

    def heatmap(
        self,
        stat: str,
        kind: str | Sequence[str] | None = None,
        *,
        tensor: Names = None,
        steps: Steps = None,
        rank: int | None = None,
        columns: int = 1000,
    ) -> Heatmap:
        """Return one statistic of many tensors over the steps, in at most so many columns of equal width.

            run.heatmap("norm", "grad").values      # [tensors, columns]

        A cell of several steps shows a typical one: of a norm the root of the mean of the squares, of counts the mean,
        of "min" and "max" the least and the greatest, of all else what one row over all of these steps would say; of a
        metric the mean. What is not finite is counted beside it, so that it can be marked. Of a long run only
        summaries are read, which the store holds: some hundred milliseconds for 300 tensors of a million steps.

        stat, kind, tensor, steps, rank: as in `frame`.

        Raises:
            NotInRun: if the run does not hold what was asked for.
            ValueError: if there is to be no column.
        """
        return self.heatmaps([stat], kind, tensor=tensor, steps=steps, rank=rank, columns=columns)[0]

    def heatmaps(
        self,
        stats: Sequence[str],
        kind: str | Sequence[str] | None = None,
        *,
        tensor: Names = None,
        steps: Steps = None,
        rank: int | None = None,
        columns: int = 1000,
    ) -> list[Heatmap]:
        """Return several statistics, each as `heatmap` does, from one reading."""
        if columns < 1:
            raise ValueError(f"columns has to be at least 1, and it is {columns}.")
        known, window = self._known(), _slice(steps)
        query = Query(tuple(known.chosen(tensor, kind)), window, self._checked(rank))
        known.check(stats)
        there = query.wants(within({"step": self.steps}, None, query.window))["step"]
        found = heatmaps(self._ranks(), known, query, stats, there, columns)
        self._warn()
        return found

    def first_nonfinite(self) -> NonFinite | None:
        """Return the first tensor that was not finite, and its step and call; None if everything always was."""
        found = first_nonfinite(self._ranks(), self._known())
        self._warn()
        return found

    def audit(self) -> Any:
        """Look for what went wrong, by rules, and return a `backsight.Report`.

            print(run.audit())

        The rules and their codes (BS301 and on) are listed in `docs/codes/`.
        """
        # A convenience on the face of a run. This room stands below diagnosis and must not need it, so it is looked up
        # by name when somebody asks.
        return import_module("backsight.diagnosis").audit_run(self)

    def export(self, path: str | os.PathLike[str]) -> Path:
        """Write all rows, ranks merged, tensor by tensor, to one file, and return its path.

            run.export("first.parquet")

        path: ends in .parquet, .csv or .jsonl; a file that is there is replaced when the new one is whole.

        Raises:
            ValueError: if it ends otherwise.
            ImportError: if it is to be Parquet and pyarrow is not installed.
        """
        export(tables(self._ranks(), self._known()), Path(path))
        self._warn()
        return Path(path)

    def to_report(self, path: str | os.PathLike[str]) -> Path:
        """Write one HTML file that shows the run by itself, and return its path.

            run.to_report("first.html")

        Raises:
            ValueError: if the file is not called .html.
            OSError: if it cannot be written.
        """
        # As `audit`: this room stands below the viewer, which is looked up when somebody asks.
        found: Path = import_module("backsight.viewer").to_report(self, path)
        return found

    def plot(self, tensor: str, stat: str, *, kind: str | None = None, steps: Steps = None, ax: Any = None) -> Any:
        """Draw one statistic of one tensor over the steps with matplotlib, and return the axes.

            run.plot("layer1.weight", "grad_norm")

        tensor, stat, kind, steps: as in `series`; ax: where to draw, a new figure if not given.

        Raises:
            NotInRun: as `series`.
            ImportError: if matplotlib is not installed.
        """
        return import_module("backsight.viewer").plot(self, tensor, stat, kind=kind, steps=steps, ax=ax)

    def plot_heatmap(self, stat: str = "norm", kind: str = "grad", *, steps: Steps = None, ax: Any = None) -> Any:
        """Draw `heatmap` with matplotlib, tensors in the order of the modules, and return the axes.

            run.plot_heatmap("norm", "grad")

        Raises:
            NotInRun: if the run does not hold it.
            ImportError: if matplotlib is not installed.
        """
        return import_module("backsight.viewer").plot_heatmap(self, stat, kind, steps=steps, ax=ax)

    def to_tensorboard(self, logdir: str | os.PathLike[str], stats: Sequence[str] = TENSORBOARD) -> Path:
        """Write scalars `kind/tensor/statistic` as an event file of TensorBoard, which need not be installed.

            run.to_tensorboard("logs/first", stats=["mean", "l2"])

        Several calls in a step are `kind/tensor/statistic/call 0`, `.../call 1`, ...; of a gradient, weight, buffer,
        state or update the last one stands without a number as well. TensorBoard's scalars have single precision.

        Raises:
            NotInRun: if there is no such statistic.
        """
        known = self._known()
        known.check(stats)
        steps, ends = self.times()
        times = dict(zip(steps.tolist(), ends.tolist(), strict=True))
        path = write_scalars(Path(logdir), self._ranks(), known, stats, times, self.created)
        self._warn()
        return path

    def __reduce__(self) -> tuple[Any, ...]:
        return Run, (self.path,)

    def __repr__(self) -> str:
        return f"<Run {str(self.path)!r}, {len(self._held)} of {self.world} ranks>"

    @property
    def _first(self) -> Rank:
        return next(iter(self._ranks().values()))

    def _known(self) -> Catalogue:
        """What is defined by now; read anew only where there are more lines."""
        ranks = self._ranks()
        lines = {number: (len(rank.tensors.read()), len(rank.metrics.read())) for number, rank in ranks.items()}
        held = self._catalogue
        if held is None or held[0] != lines:
            held = self._catalogue = lines, catalogue(ranks)
        return held[1]

    def _ranks(self) -> dict[int, Rank]:
        """The ranks that can be read, as of now."""
        try:
            folders = places.ranks_in(self.path)
        except FileNotFoundError:
            raise RunNotFound(f"There is no run at {self.path}.") from None
        for number, folder in folders.items():
            if number not in self._held and number not in self._unreadable:
                try:
                    self._held[number] = self._of_this_job(Rank(number, folder))
                except (DamagedRun, NotARun) as error:
                    self._unreadable[number] = error
        if not self._held:
            raise next(iter(self._unreadable.values()), NotARun(f"{self.path} holds no rank of a run."))
        self._held = dict(sorted(self._held.items()))
        return self._held

    def _of_this_job(self, rank: Rank) -> Rank:
        """Return the rank, if it was written by the same job as the first: others have nothing to be merged with."""
        job = rank.manifest.get("job")
        first = next(iter(self._held.values()), rank)
        if job != first.manifest.get("job"):
            raise DamagedRun(
                f"Rank {rank.number} was written by another job than rank {first.number}, and is left out."
            )
        return rank

    def _checked(self, rank: int | None) -> int | None:
        if rank is not None and rank not in self._ranks():
            raise NotInRun(f"The run has no rank {rank}; it has {', '.join(map(str, self.ranks))}.")
        return rank

    def _warn(self) -> None:
        """Say once that something was skipped; what is torn at an end is not worth it."""
        damage = self.damage
        if not self._warned and (damage.blocks or damage.lines):
            self._warned = True
            text = f"{self.path} is damaged: {damage.blocks} blocks and {damage.lines} lines of it were skipped."
            text = " ".join((text, *map(str, self._unreadable.values())))
            warnings.warn(text, RunWarning, stacklevel=3)


def _slice(steps: Steps) -> slice | None:
    if steps is None:
        return None
    held = slice(steps, steps + 1) if not isinstance(steps, slice) else steps
    if any(bound is not None and bound < 0 for bound in (held.start, held.stop)) or (held.step or 1) < 1:
        raise ValueError(f"steps are numbers from 0 on, with a stride of at least 1; this was asked for: {held}.")
    return held
