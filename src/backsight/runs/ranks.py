"""The ranks of one run: those that can be read, as of now, and what their tensors are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from backsight.blame import warn
from backsight.runs import lines, places
from backsight.runs.catalogue import Catalogue, catalogue
from backsight.runs.errors import DamagedRun, NotARun, NotInRun, RunError, RunNotFound, RunWarning
from backsight.runs.rank import Damage, Rank

MANY = 64
"""Ranks of a run of which nothing is read unasked but that they are there; see `Run.overview`."""


class Ranks:
    """The ranks in the folder of a run. A run that is being written may get more of them.

    only: a rank to be the only one, whatever else is there.

    Raises:
        RunError: if there is none that can be read.
    """

    def __init__(self, path: Path, only: int | None = None):
        self.path = path
        self.only = only
        self._alike = lines.Alike(), lines.Alike()
        self.held: dict[int, Rank] = {}
        """Those that have been seen so far, in order."""
        self._unreadable: dict[int, RunError] = {}
        self._warned = False
        self._catalogue: tuple[dict[int, tuple[int, int]], Catalogue] | None = None
        self.now()

    @property
    def first(self) -> Rank:
        return next(iter(self.now().values()))

    @property
    def created(self) -> float:
        """When the first of them began, in seconds since 1970."""
        return min(float(rank.manifest["created"]) for rank in self.held.values())

    @property
    def damage(self) -> Damage:
        """What reading has skipped so far; ranks that cannot be read at all count as a block each."""
        return sum((rank.damage for rank in self.held.values()), Damage(blocks=len(self._unreadable)))

    def now(self) -> dict[int, Rank]:
        """Return the ranks that can be read, as of now."""
        try:
            names = places.rank_names(self.path)
        except FileNotFoundError:
            raise RunNotFound(f"there is no run at {self.path}.") from None
        new = [number for number in names if number not in self.held and number not in self._unreadable]
        for number in new:
            if self.only in (None, number):
                try:
                    self.held[number] = self._of_this_job(Rank(number, self.path / names[number], self._alike))
                except (DamagedRun, NotARun) as error:
                    self._unreadable[number] = error
        if not self.held:
            raise next(iter(self._unreadable.values()), NotARun(f"{self.path} holds no rank of a run."))
        if new:
            self.held = dict(sorted(self.held.items()))
        return self.held

    def known(self) -> Catalogue:
        """Return what is defined by now; read anew only where there are more lines."""
        ranks = self.now()
        read = {number: (len(rank.tensors.read()), len(rank.metrics.read())) for number, rank in ranks.items()}
        held = self._catalogue
        if held is None or held[0] != read:
            held = self._catalogue = read, catalogue(ranks)
        return held[1]

    def times(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the steps and when each ended, on the rank that was first."""
        step, time = np.zeros(0, "<i8"), np.zeros(0)
        for rank in self.now().values():
            held = rank.table("S")
            if np.array_equal(step, held["step"]):  # as they are where no rank is ahead of the others
                time = np.fmin(time, held["time"])
                continue
            step, time = np.append(step, held["step"]), np.append(time, held["time"])
            in_order = np.lexsort((time, step))
            step, time = step[in_order], time[in_order]
            first = np.append(True, step[1:] != step[:-1])[: len(step)]
            step, time = step[first], time[first]
        return step, time

    def checked(self, rank: int | None) -> int | None:
        """Return the rank that was asked for.

        Raises:
            NotInRun: if there is no such rank.
        """
        if rank is not None and rank not in (there := self.now()):
            raise NotInRun(f"the run has no rank {rank}; it has {', '.join(map(str, there))}.")
        return rank

    def warn(self) -> None:
        """Say once that something was skipped; what is torn at an end is not worth it."""
        damage = self.damage
        if not self._warned and (damage.blocks or damage.lines):
            self._warned = True
            text = f"{self.path} is damaged: {damage.blocks} blocks and {damage.lines} lines of it were skipped."
            text = " ".join((text, *map(str, self._unreadable.values())))
            warn(text, RunWarning)

    def _of_this_job(self, rank: Rank) -> Rank:
        """Return the rank, if it was written by the same job as the first: others have nothing to be merged with."""
        job = rank.manifest.get("job")
        first = next(iter(self.held.values()), rank)
        if job != first.manifest.get("job"):
            raise DamagedRun(
                f"rank {rank.number} was written by a different job than rank {first.number} and is ignored."
            )
        return rank
