"""The rows that a query asks for, from all ranks, under one numbering of tensors, merged or side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from backsight.runs.catalogue import Catalogue, element_name
from backsight.runs.coarse import over
from backsight.runs.merging import grouped, last_calls, merged, merged_counts, merged_values, one_replica
from backsight.runs.rank import Rank
from backsight.runs.schema import BINS, KEYS, RUNNING, Columns, chosen, empty, rows_in
from backsight.runs.segments import ALL_STEPS, Window

ROWS_AT_ONCE = 1 << 20
"""Rows of several ranks after which they are merged before more are read."""

Steps = slice | int | None
"""A step, several, or all of them."""


@dataclass(frozen=True)
class Query:
    """Which tensors (by name and kind), which steps, and which rank; None: all, merged."""

    tensors: tuple[tuple[str, str], ...]
    steps: slice | None = None
    rank: int | None = None

    @property
    def window(self) -> Window:
        """The first and the last step that may be wanted."""
        if self.steps is None:
            return ALL_STEPS
        start = ALL_STEPS[0] if self.steps.start is None else self.steps.start
        stop = ALL_STEPS[1] if self.steps.stop is None else self.steps.stop - 1
        return start, stop

    def wants(self, rows: Columns) -> Columns:
        """Return the rows on the stride of the steps."""
        stride = 1 if self.steps is None or self.steps.step is None else self.steps.step
        start = 0 if self.steps is None or self.steps.start is None else self.steps.start
        return rows if stride == 1 else chosen(rows, (rows["step"] - start) % stride == 0)


def sliced(steps: Steps) -> slice | None:
    """Return steps as a slice, None for all.

    Raises:
        ValueError: if a step is negative, or the stride less than 1.
    """
    if steps is None:
        return None
    held = slice(steps, steps + 1) if not isinstance(steps, slice) else steps
    if any(bound is not None and bound < 0 for bound in (held.start, held.stop)) or (held.step or 1) < 1:
        raise ValueError(f"steps must be numbers from 0 up, with a stride of at least 1, not {held}.")
    return held


def statistics(ranks: dict[int, Rank], known: Catalogue, query: Query, keys: Sequence[str] = KEYS) -> Columns:
    """Return rows of the statistics, one for each group of equal keys."""
    return _merged_in_turn(
        _gathered("R", ranks, known, query),
        lambda rows: merged(_one_a_step(one_replica(rows), known, keys), keys),
        lambda rows: merged(one_replica(rows), keys),
    )


def coarse(ranks: dict[int, Rank], known: Catalogue, query: Query, level: int, stretch: int) -> Columns:
    """Return coarse rows, one for each tensor and stretch of steps; `steps` says how many steps it was made of.

    level: what they are made of: stored rows over this stretch, of which `stretch` is a multiple, or 1 for all rows.
    """
    if level == 1:
        rows = statistics(ranks, known, query, ("tensor", "step"))
        ones = np.ones_like(rows["step"])
        return over({**rows, "stretch": ones, "steps": ones}, stretch)
    everything = len(query.tensors) == len(known.tensors)
    parts: list[Columns] = []
    for number, rank in ranks.items():
        if query.rank in (None, number):
            mine = None if everything else known.numbers(number, query.tensors)
            rows = _placed(rank.coarse(level, query.window, mine), rank, known)
            parts.append({**rows, "call": np.zeros_like(rows["step"])})
            if sum(map(rows_in, parts)) >= ROWS_AT_ONCE:
                parts = [_of_all_ranks(parts)]
    return over(_of_all_ranks(parts), stretch)


def _of_all_ranks(parts: list[Columns]) -> Columns:
    """Return coarse rows of several ranks as one: of the same steps, where those of one rank are of different ones."""
    names = parts[-1]  # what has been put together before has columns of that beside them
    rows = one_replica({name: np.concatenate([part[name] for part in parts]) for name in names})
    held, starts = grouped(rows, ("rank", "tensor", "step"))
    if len(starts) < rows_in(held):  # a tensor of several shapes
        steps = np.add.reduceat(held["steps"], starts)
        held = {**merged(held, ("rank", "tensor", "step")), "steps": steps}
    held, starts = grouped(held, ("tensor", "step"))
    if len(starts) == rows_in(held):
        return held
    return {**merged(held, ("tensor", "step")), "steps": np.maximum.reduceat(held["steps"], starts)}


def histograms(ranks: dict[int, Rank], known: Catalogue, query: Query, keys: Sequence[str] = KEYS) -> Columns:
    """Return histograms, one for each group of equal keys."""
    return _merged_in_turn(
        _gathered("H", ranks, known, query),
        lambda rows: merged_counts(_one_a_step(one_replica(rows), known, keys), keys),
        lambda rows: merged_counts(one_replica(rows), keys),
    )


def values(
    ranks: dict[int, Rank],
    known: Catalogue,
    query: Query,
    metric: str,
    element: int | None = None,
    keys: Sequence[str] = KEYS,
) -> Columns:
    """Return the values of a metric, or of one element of it, one for each group of equal keys."""
    merge = known.metrics[metric].merge

    def of_this_element(rows: Columns) -> Columns:
        rows = _one_a_step(one_replica(rows), known, keys)
        rows = rows if element is None else chosen(rows, rows["element"] == element)
        return merged_values(rows, (*keys, "element"), merge)

    return _merged_in_turn(
        _gathered("V", ranks, known, query, metric),
        of_this_element,
        lambda rows: merged_values(one_replica(rows), (*keys, "element"), merge),
    )


def elements(ranks: dict[int, Rank], known: Catalogue, query: Query, metric: str) -> list[str]:
    """Return the names of the columns of a metric: its own, and `name[0]`, `name[1]`, ... where it is a list."""
    parts = [np.unique(rows["element"]) for rows in _gathered("V", ranks, known, query, metric)]
    return [element_name(metric, element) for element in np.unique(np.concatenate(parts)).tolist()]


def _one_a_step(rows: Columns, known: Catalogue, keys: Sequence[str]) -> Columns:
    """Return the rows that stand for a step where calls are not told apart: see `RUNNING`."""
    if "call" in keys:
        return rows
    return last_calls(rows, np.array([kind not in RUNNING for _, kind in known.tensors], bool))


def _merged_in_turn(
    parts: Iterator[Columns], first: Callable[[Columns], Columns], again: Callable[[Columns], Columns]
) -> Columns:
    """Return what `first` makes of the rows of some ranks, put together by `again` with those of the next ones."""
    found = first(next(parts))
    for rows in parts:
        more = first(rows)
        found = again({name: np.concatenate((found[name], more[name])) for name in found})
    return found


def _gathered(
    table: str, ranks: dict[int, Rank], known: Catalogue, query: Query, metric: str | None = None
) -> Iterator[Columns]:
    """Yield the rows of all ranks, at least once, and of so many ranks at a time that they fit into memory.

    `tensor` is the position of its key, `entry` that of its definition.
    """
    everything = len(query.tensors) == len(known.tensors)
    parts: list[Columns] = []
    given = False
    for number, rank in ranks.items():
        if query.rank is not None and number != query.rank:
            continue
        numbers = known.numbers(number, query.tensors)
        if not len(numbers):
            continue
        rows = rank.table(table, None if everything else numbers, query.window, query.wants)
        if metric is not None:
            mine = [k for k, name in known.metrics_of_rank[number].items() if name == metric]
            rows = chosen(rows, np.isin(rows["metric"], mine))
        parts.append(_placed(rows, rank, known))
        if sum(map(rows_in, parts)) >= ROWS_AT_ONCE // (BINS if table == "H" else 1):
            yield _below(table, parts)
            parts, given = [], True
    if parts or not given:
        yield _below(table, parts)


def _below(table: str, parts: list[Columns]) -> Columns:
    """Return the rows of several ranks one below the other."""
    if len(parts) == 1:
        return parts[0]
    held = {**empty(table), **dict.fromkeys(("entry", "rank", "replicated"), np.zeros(0, "<i8"))}
    return {name: np.concatenate([held[name], *(part[name] for part in parts)]) for name in held}


def _placed(rows: Columns, rank: Rank, known: Catalogue) -> Columns:
    """Return the rows with what tells them from those of other ranks; those of undefined tensors are left out."""
    rows = {**rows, "entry": known.entry_of(rank.number, rows["tensor"])}
    if (undefined := rows["entry"] < 0).any():  # the line that defined them is damaged, or was cut off
        rank.undefined(np.unique(rows["tensor"][undefined]).tolist())
        rows = chosen(rows, ~undefined)
    rows["tensor"] = known.key_of[rows["entry"]]
    rows["rank"] = np.full(rows_in(rows), rank.number, "<i8")
    rows["replicated"] = known.replicated[rows["entry"]]
    return rows
