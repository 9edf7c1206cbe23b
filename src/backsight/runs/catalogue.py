"""Which tensors and metrics a run holds: the definitions of all ranks under one numbering."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backsight.runs.derived import DERIVED, derivation
from backsight.runs.errors import NotInRun
from backsight.runs.rank import Rank

Names = str | Sequence[str] | re.Pattern[str] | None
"""How a query names tensors: one, several, a pattern for the whole name, or all (None)."""


@dataclass(frozen=True)
class Tensor:
    """A tensor of the run; one that came in several shapes has the one seen first."""

    name: str
    kind: str
    module: str | None
    shape: tuple[int, ...] | None
    dtype: str | None
    replicated: bool
    ranks: tuple[int, ...]


@dataclass(frozen=True)
class Metric:
    """A metric of the user's, and how its values merge."""

    name: str
    merge: str


@dataclass
class Catalogue:
    """The tensors by name and kind, each entry (a rank's definition of one) by rank and number."""

    tensors: dict[tuple[str, str], Tensor] = field(default_factory=dict)
    metrics: dict[str, Metric] = field(default_factory=dict)
    entries: list[Tensor] = field(default_factory=list)
    """One for each definition of each rank; its `ranks` is that rank alone."""
    of_rank: dict[int, dict[int, int]] = field(default_factory=dict)
    """The position in `entries` of each number of each rank."""
    metrics_of_rank: dict[int, dict[int, str]] = field(default_factory=dict)

    def chosen(self, tensor: Names, kind: str | Sequence[str] | None) -> list[tuple[str, str]]:
        """Return the keys of the tensors that a query names.

        Raises:
            NotInRun: if it names one, or a kind, that the run does not hold.
        """
        kinds = None if kind is None else {kind} if isinstance(kind, str) else set(kind)
        known = {held for _, held in self.tensors}
        if kinds is not None and self.tensors and not kinds <= known:
            raise NotInRun(f"The run has no tensors of kind {min(kinds - known)!r}; it has {_listed(known)}.")
        keys = [key for key in self.tensors if kinds is None or key[1] in kinds]
        if tensor is None:
            return keys
        if isinstance(tensor, re.Pattern):
            return [key for key in keys if tensor.fullmatch(key[0])]
        wanted = {tensor} if isinstance(tensor, str) else set(tensor)
        found = [key for key in keys if key[0] in wanted]
        if missing := wanted - {name for name, _ in found}:
            raise self._no_tensor(min(missing), {name for name, _ in keys})
        return found

    def numbers(self, rank: int, keys: Iterable[tuple[str, str]]) -> NDArray[np.int64]:
        """Return the numbers that a rank has given to these tensors."""
        given = self._given.get(rank, {})
        return np.array([number for key in keys for number in given.get(key, ())], "<i8")

    def entry_of(self, rank: int, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the position in `entries` of each number of a rank; -1 where the line that defined it is damaged."""
        known = self._known_numbers[rank]
        return known[np.clip(numbers, -1, len(known) - 1)]

    @cached_property
    def key_of(self) -> NDArray[np.int64]:
        """The position in `tensors` of each entry."""
        positions = {key: k for k, key in enumerate(self.tensors)}
        return np.array([positions[entry.name, entry.kind] for entry in self.entries], "<i8")

    @cached_property
    def replicated(self) -> NDArray[np.int64]:
        """Whether each entry is a replica."""
        return np.array([entry.replicated for entry in self.entries], "<i8")

    @cached_property
    def _given(self) -> dict[int, dict[tuple[str, str], list[int]]]:
        found: dict[int, dict[tuple[str, str], list[int]]] = {}
        for rank, entries in self.of_rank.items():
            mine = found[rank] = {}
            for number, k in entries.items():
                mine.setdefault((self.entries[k].name, self.entries[k].kind), []).append(number)
        return found

    @cached_property
    def _known_numbers(self) -> dict[int, NDArray[np.int64]]:
        found = {}
        for rank, entries in self.of_rank.items():
            found[rank] = np.full(max(entries, default=-1) + 2, -1, "<i8")
            found[rank][list(entries)] = list(entries.values())
        return found

    def one(self, tensor: str, stat: str, kind: str | None) -> tuple[tuple[str, str], str]:
        """Return the key and the statistic of a series; `grad_norm` is the norm of the kind grad.

        Raises:
            NotInRun: if there is no such tensor, kind or statistic, or there are several kinds to choose from.
        """
        kind, stat = self._split(stat, kind)
        self.check([stat])
        keys = self.chosen(tensor, kind)
        if len(keys) > 1:
            raise NotInRun(
                f"{tensor!r} was recorded as {_listed(held for _, held in keys)}. Choose one: kind={keys[0][1]!r}."
            )
        return keys[0], stat

    def _split(self, stat: str, kind: str | None) -> tuple[str | None, str]:
        """Return the kind and the statistic of `grad_norm`, also where there is no such statistic of that kind."""
        if not self.knows(stat):
            for prefix in sorted({held for _, held in self.tensors}, key=len, reverse=True):
                if kind in (None, prefix) and stat.startswith(f"{prefix}_"):
                    return prefix, stat.removeprefix(f"{prefix}_")
        return kind, stat

    def check(self, stats: Iterable[str]) -> None:
        """Raise `NotInRun` if one of these is neither a statistic nor a metric."""
        for stat in stats:
            if not self.knows(stat):
                raise NotInRun(f"There is no statistic {stat!r}. Choose from {_listed([*DERIVED, *self.metrics])}.")

    def knows(self, stat: str) -> bool:
        """Whether this is the name of a statistic or of a metric; `name[0]` is an element of a metric."""
        return derivation(stat) is not None or stat in self.metrics or metric_of(stat)[0] in self.metrics

    def _no_tensor(self, name: str, names: set[str]) -> NotInRun:
        if kinds := [kind for held, kind in self.tensors if held == name]:
            return NotInRun(f"{name!r} was recorded as {_listed(kinds)}, not as that kind.")
        close = difflib.get_close_matches(name, names, 3)
        hint = f" Close to it: {_listed(close)}." if close else " `run.tensors` lists all of them."
        return NotInRun(f"The run has no tensor {name!r}.{hint}")


def metric_of(column: str) -> tuple[str, int]:
    """Return the metric and the element that a column is about: ("gap", 2) for `gap[2]`, ("gap", -1) for `gap`."""
    found = re.fullmatch(r"(.*)\[(\d+)\]", column, re.DOTALL)
    return (found[1], int(found[2])) if found else (column, -1)


def element_name(metric: str, element: int) -> str:
    """Return the column of an element of a metric: the other way round."""
    return metric if element < 0 else f"{metric}[{element}]"


def catalogue(ranks: dict[int, Rank]) -> Catalogue:
    """Read the definitions of all ranks."""
    found = Catalogue()
    for number, rank in ranks.items():
        entries = found.of_rank[number] = {}
        for line in rank.tensors.read():
            entry = _tensor(line, number)
            entries[line["id"]] = len(found.entries)
            found.entries.append(entry)
            key = (entry.name, entry.kind)
            known = found.tensors.get(key, entry)
            held = known.ranks if number in known.ranks else (*known.ranks, number)
            found.tensors[key] = Tensor(*key, known.module, known.shape, known.dtype, known.replicated, held)
        names = found.metrics_of_rank[number] = {}
        for line in rank.metrics.read():
            names[line["id"]] = line["name"]
            found.metrics.setdefault(line["name"], Metric(line["name"], line["merge"]))
    return found


def _tensor(line: dict[str, Any], rank: int) -> Tensor:
    shape = None if line["shape"] is None else tuple(line["shape"])
    return Tensor(line["name"], line["kind"], line["module"], shape, line["dtype"], line["replicated"], (rank,))


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"
