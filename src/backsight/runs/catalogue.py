"""Which tensors and metrics a run holds: the definitions of all ranks under one numbering."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from backsight.runs.derived import DERIVED, derivation
from backsight.runs.errors import NotInRun
from backsight.runs.rank import Rank
from backsight.text.meant import meant

T = TypeVar("T")

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
    """One for each definition; ranks whose definitions are the same share theirs."""
    of_rank: dict[int, dict[int, int]] = field(default_factory=dict)
    """The position in `entries` of each number of each rank; ranks that share theirs have one object."""
    metrics_of_rank: dict[int, dict[int, str]] = field(default_factory=dict)

    def chosen(self, tensor: Names, kind: str | Sequence[str] | None) -> list[tuple[str, str]]:
        """Return the keys of the tensors that a query names.

        Raises:
            NotInRun: if it names one, or a kind, that the run does not hold.
        """
        kinds = None if kind is None else {kind} if isinstance(kind, str) else set(kind)
        known = {held for _, held in self.tensors}
        if kinds is not None and self.tensors and not kinds <= known:
            raise NotInRun(f"the run has no tensors of kind {min(kinds - known)!r}; it has {_listed(known)}.")
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
        return self._by_rank(self._numbers_by_key)

    @cached_property
    def _known_numbers(self) -> dict[int, NDArray[np.int64]]:
        return self._by_rank(_positions)

    def _by_rank(self, made: Callable[[dict[int, int]], T]) -> dict[int, T]:
        """Return what is made of the entries of each rank, once for all that share them."""
        found: dict[int, T] = {}
        for entries in self.of_rank.values():
            if id(entries) not in found:
                found[id(entries)] = made(entries)
        return {rank: found[id(entries)] for rank, entries in self.of_rank.items()}

    def _numbers_by_key(self, entries: dict[int, int]) -> dict[tuple[str, str], list[int]]:
        found: dict[tuple[str, str], list[int]] = {}
        for number, k in entries.items():
            found.setdefault((self.entries[k].name, self.entries[k].kind), []).append(number)
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
                raise NotInRun(f"there is no statistic {stat!r}. Choose from {_listed([*DERIVED, *self.metrics])}.")

    def knows(self, stat: str) -> bool:
        """Whether this is the name of a statistic or of a metric; `name[0]` is an element of a metric."""
        return derivation(stat) is not None or stat in self.metrics or metric_of(stat)[0] in self.metrics

    def _no_tensor(self, name: str, names: set[str]) -> NotInRun:
        if kinds := [kind for held, kind in self.tensors if held == name]:
            return NotInRun(f"{name!r} was recorded as {_listed(kinds)}, not as that kind.")
        return NotInRun(
            f"the run has no tensor {name!r}{meant(name, names, 3) or '. `run.tensors` lists all of them.'}"
        )


def metric_of(column: str) -> tuple[str, int]:
    """Return the metric and the element that a column is about: ("gap", 2) for `gap[2]`, ("gap", -1) for `gap`."""
    found = re.fullmatch(r"(.*)\[(\d+)\]", column, re.DOTALL)
    return (found[1], int(found[2])) if found else (column, -1)


def element_name(metric: str, element: int) -> str:
    """Return the column of an element of a metric: the other way round."""
    return metric if element < 0 else f"{metric}[{element}]"


def catalogue(ranks: dict[int, Rank]) -> Catalogue:
    """Read the definitions of all ranks; those that are the same on several are looked at once."""
    found = Catalogue()
    everywhere: dict[tuple[str, str], list[int]] = {}
    for lines, held_by in _alike({number: rank.tensors.read() for number, rank in ranks.items()}):
        entries: dict[int, int] = {}
        for line in lines:
            entry = _tensor(line, tuple(held_by))
            entries[line["id"]] = len(found.entries)
            found.entries.append(entry)
            key = (entry.name, entry.kind)
            found.tensors.setdefault(key, entry)
            everywhere.setdefault(key, []).extend(held_by)
        found.of_rank |= dict.fromkeys(held_by, entries)
    for key, entry in found.tensors.items():
        found.tensors[key] = replace(entry, ranks=tuple(sorted(set(everywhere[key]))))
    for lines, held_by in _alike({number: rank.metrics.read() for number, rank in ranks.items()}):
        names = {line["id"]: line["name"] for line in lines}
        found.metrics_of_rank |= dict.fromkeys(held_by, names)
        for line in lines:
            found.metrics.setdefault(line["name"], Metric(line["name"], line["merge"]))
    return found


def _positions(entries: dict[int, int]) -> NDArray[np.int64]:
    """Return the entry of each number, -1 of one that has none, and for all numbers beyond."""
    found = np.full(max(entries, default=-1) + 2, -1, "<i8")
    found[list(entries)] = list(entries.values())
    return found


def _alike(read: dict[int, list[dict[str, Any]]]) -> list[tuple[list[dict[str, Any]], list[int]]]:
    """Return which ranks have read the very same lines (see `lines.Alike`), by the first rank of each."""
    found: dict[tuple[int, ...], tuple[list[dict[str, Any]], list[int]]] = {}
    for number, lines in read.items():
        found.setdefault(tuple(map(id, lines)), (lines, []))[1].append(number)
    return list(found.values())


def _tensor(line: dict[str, Any], ranks: tuple[int, ...]) -> Tensor:
    shape = None if line["shape"] is None else tuple(line["shape"])
    return Tensor(line["name"], line["kind"], line["module"], shape, line["dtype"], line["replicated"], ranks)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"
