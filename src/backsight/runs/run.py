"""`Run`: a recording as its readers see it, finished or still being written."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backsight.runs import frame, gathering, journal, tags
from backsight.runs.catalogue import Catalogue, Names, Tensor, metric_of
from backsight.runs.derived import derivation
from backsight.runs.documents import Documents, Stored
from backsight.runs.frame import As
from backsight.runs.gathering import Query, Steps, sliced, statistics
from backsight.runs.heatmap import Heatmap, heatmaps
from backsight.runs.journal import EVALUATION, Event, Mark
from backsight.runs.ordering import newest
from backsight.runs.outward import Outward
from backsight.runs.rank import Damage, Rank
from backsight.runs.ranks import MANY, Ranks
from backsight.runs.scalars import Scalar, scalars
from backsight.runs.schema import Columns
from backsight.runs.segments import within
from backsight.runs.series import Histograms, Series, thinned


class Run(Outward):
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

    def __init__(self, path: str | os.PathLike[str], *, rank: int | None = None):
        self.path = Path(path)
        self._rank = rank
        self._ranks = Ranks(self.path, rank)
        self._documents = Documents()
        self._alone: dict[int, Run] = {}

    def only(self, rank: int) -> Run:
        """Return the run as one rank has recorded it: all that is asked of it reads this rank's files, and no others.

            run.only(7).steps

        Raises:
            NotInRun: if there is no such rank.
        """
        self._ranks.checked(rank)
        if rank not in self._alone:
            self._alone[rank] = Run(self.path, rank=rank)
        return self._alone[rank]

    @property
    def overview(self) -> Run:
        """What lists, audits and first pages read: this run; of one of more than 64 ranks, its lowest rank alone."""
        ranks = self.ranks
        return self if len(ranks) <= MANY else self.only(ranks[0])

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks that have begun and can be read; `world` says how many there should be."""
        return tuple(self._ranks.now())

    @property
    def world(self) -> int:
        ranks, world = self.ranks, int(self._ranks.first.manifest["world"])
        forked = sum(rank >= world for rank in ranks)  # processes that were forked off a rank, and trained
        return max(world, len(ranks)) if forked else world

    @property
    def created(self) -> float:
        """When the first of its ranks began, in seconds since 1970."""
        return self._ranks.created

    @property
    def config(self) -> dict[str, Any]:
        return dict(self._ranks.first.manifest["config"])

    @property
    def environment(self) -> dict[str, Any]:
        return dict(self._ranks.first.manifest["environment"])

    @property
    def tree(self) -> Any:
        """The modules, as the lowest rank stored them; None if it has not yet."""
        return self._ranks.first.tree

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
        return self._documents.graph(self._ranks.now())

    def stored_memory(self) -> Stored | None:
        """Return `memory` as `value`, with its `step`."""
        return self._documents.memory(self._ranks.now())

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The tensors in the order in which they were first seen."""
        return tuple(self._ranks.known().tensors.values())

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of the user's own metrics."""
        return tuple(self._ranks.known().metrics)

    @property
    def steps(self) -> NDArray[np.int64]:
        """The steps that were recorded, in order."""
        found: Columns = {"step": np.zeros(0, "<i8")}
        for rank in self._ranks.now().values():
            theirs = rank.table("S")["step"]
            if not np.array_equal(found["step"], theirs):  # as they are where no rank is ahead of the others
                # Not np.unique, which hashes: for a million steps that are in order already it takes half a second.
                found = newest({"step": np.concatenate((found["step"], theirs))}, ("step",))
        return found["step"]

    @property
    def training_steps(self) -> NDArray[np.int64]:
        """The steps that were recorded, without an evaluation after the last one, which is recorded as the next."""
        after = [event.step for event in self.events if event.event == EVALUATION and event.step is not None]
        return self.steps[~np.isin(self.steps, after)] if after else self.steps

    @property
    def last_steps(self) -> dict[int, int | None]:
        """The newest step of each rank, None for one that has none: what tells which was killed, or lags behind."""
        return {number: rank.last_step() for number, rank in self._ranks.now().items()}

    @property
    def marks(self) -> tuple[Mark, ...]:
        """The tags, by step."""
        return journal.marks(self._ranks.now())

    def times(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return `steps`, and when each ended on the rank that was first, in seconds since 1970."""
        return self._ranks.times()

    def tags(
        self, rank: int | None = None
    ) -> tuple[dict[str, tuple[NDArray[np.int64], NDArray[np.float64]]], dict[str, list[tuple[int, Any]]]]:
        """Return `marks` by tag: those that are numbers as steps and values, the others as (step, value) of changes.

        Of a step that was tagged several times what was said last holds, and of several ranks the lowest. This is what
        is fast for a million steps.
        """
        held = [each.tags.read() for number, each in self._ranks.now().items() if rank in (None, number)]
        return tags.numbers(each.columns() for each in held[::-1]), tags.words(held[::-1])

    def scalars(self, *, rank: int | None = None, columns: int = 2000) -> dict[str, Scalar]:
        """Return the numbers of the run that are about no tensor, by name, the losses first.

            run.scalars()["loss"].values

        The tags that are numbers (`rec.mark`), and what recording has taken down: what `backward()` was called on, by
        the name of its variable, how far the weights moved, the numbers of the parameter groups, and memory. From the
        rows: `grad_norm`, of all gradients together before any clipping; `update_ratio`, the norm of the updates over
        that of the weights, exact if "update" was recorded; `step_time`, in seconds.

        columns: of a run of more steps, a point of what comes from the rows is about several.

        Raises:
            NotInRun: if there is no such rank.
        """
        return scalars(self, self._ranks.checked(rank), columns)

    def numbers(self, rank: int | None = None) -> dict[str, tuple[NDArray[np.int64], NDArray[np.float64]]]:
        """Return the tags that are numbers as steps and values, and what recording has taken down beside them.

        Where the program has given a tag of the same name, that one.
        """
        held = [each.scalars() for number, each in self._ranks.now().items() if rank in (None, number)]
        return {**tags.numbers(held[::-1]), **self.tags(rank)[0]}

    @property
    def events(self) -> tuple[Event, ...]:
        """What else happened, by time."""
        return journal.events(self._ranks.now())

    @property
    def damage(self) -> Damage:
        """What reading has skipped so far; ranks that cannot be read at all count as a block each."""
        return self._ranks.damage

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
        known = self._ranks.known()
        query = Query(tuple(known.chosen(tensor, kind)), sliced(steps), self._ranks.checked(rank))
        stats = [stat] if isinstance(stat, str) else stat
        known.check(stats or ())
        found = frame.table(self._ranks.now(), known, query, stats)
        self._ranks.warn()
        return frame.presented(found, as_)

    def latest(self, rank: int | None = None, as_: As = "pandas") -> Any:
        """Return the rows of the newest step that any rank has written, as `frame` does.

            run.latest()[["tensor", "kind", "l2"]]

        Raises:
            NotInRun: if there is no such rank.
        """
        last = [step for number, step in self.last_steps.items() if rank in (None, number) and step is not None]
        newest = max(last, default=0)
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
        known, ranks = self._ranks.known(), self._ranks.now()
        key, stat = known.one(tensor, stat, kind)
        query = Query((key,), sliced(steps), self._ranks.checked(rank))
        if stat not in known.metrics and (derive := derivation(stat)) is not None:
            rows = gathering.statistics(ranks, known, query, ("step",))
            values = derive(rows).astype("<f8")
        else:
            metric, element = (stat, -1) if stat in known.metrics else metric_of(stat)
            rows = gathering.values(ranks, known, query, metric, element, ("step",))
            values = rows["value"]
        self._ranks.warn()
        at, kept = thinned(rows["step"], values, points)
        return Series(*key, stat, at, kept, len(values), int(np.isnan(values).sum()))

    def histograms(
        self, tensor: str, *, kind: str | None = None, steps: Steps = None, rank: int | None = None
    ) -> Histograms:
        """Return the histograms of a tensor, by magnitude and by sign; those of the ranks are added.

        Calls are taken as in `series`. Earlier recordings have no signs, which `signed` says.

            run.histograms("layer1.weight", kind="grad").counts.sum(axis=0)

        Raises:
            NotInRun: as `series`.
        """
        known = self._ranks.known()
        key, _ = known.one(tensor, "count", kind)
        query = Query((key,), sliced(steps), self._ranks.checked(rank))
        rows = gathering.histograms(self._ranks.now(), known, query, ("step",))
        self._ranks.warn()
        signed = rows["signed"] > 0
        return Histograms(*key, rows["step"], rows["counts"], rows["sampled"], rows["negatives"], signed)

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
            raise ValueError(f"columns must be at least 1, not {columns}.")
        known, window = self._ranks.known(), sliced(steps)
        query = Query(tuple(known.chosen(tensor, kind)), window, self._ranks.checked(rank))
        known.check(stats)
        recorded = self.only(rank).steps if rank is not None and len(self.ranks) > MANY else self.steps
        there = query.wants(within({"step": recorded}, None, query.window))["step"]
        found = heatmaps(self._ranks.now(), known, query, stats, there, columns)
        self._ranks.warn()
        return found

    def first_nonfinite(self) -> NonFinite | None:
        """Return the first tensor that was not finite, and its step and call; None if everything always was."""
        found = first_nonfinite(self._ranks.now(), self._ranks.known())
        self._ranks.warn()
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(Run, rank=self._rank), (self.path,)

    def __repr__(self) -> str:
        return f"<Run {str(self.path)!r}, {len(self._ranks.held)} of {self.world} ranks>"


@dataclass(frozen=True)
class NonFinite:
    """A tensor that held NaN or infinite elements, and when."""

    tensor: str
    kind: str
    module: str | None
    step: int
    call: int
    rank: int
    nans: int
    infs: int


def first_nonfinite(ranks: dict[int, Rank], known: Catalogue) -> NonFinite | None:
    """Return the first row that was not finite: of the earliest such step, in the order in which they came about."""
    for step in sorted({step for rank in ranks.values() for step in rank.nonfinite_steps()}):
        if found := min(_in_step(ranks, known, step), key=lambda each: each[0], default=None):
            return found[1]
    return None


def _in_step(ranks: dict[int, Rank], known: Catalogue, step: int) -> Iterator[tuple[tuple[int, int], NonFinite]]:
    query = Query(tuple(known.tensors), slice(step, step + 1))
    for number, rank in ranks.items():
        rows = statistics({number: rank}, known, query)
        for k in np.flatnonzero(rows["nans"] + rows["infs"] > 0).tolist():
            held = known.entries[int(rows["entry"][k])]
            call, nans, infs, order = (int(rows[name][k]) for name in ("call", "nans", "infs", "order"))
            yield (order, number), NonFinite(held.name, held.kind, held.module, step, call, number, nans, infs)
