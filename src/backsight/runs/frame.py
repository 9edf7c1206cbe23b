"""Rows as the table that a person asked for: pandas, arrow, polars, or plain numpy columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from backsight.runs import gathering
from backsight.runs.catalogue import Catalogue, Tensor, element_name, metric_of
from backsight.runs.derived import DERIVED, derivation
from backsight.runs.gathering import Query
from backsight.runs.merging import grouped
from backsight.runs.rank import Rank
from backsight.runs.schema import KEYS, Columns, chosen, rows_in

As = Literal["pandas", "arrow", "polars", "numpy"]


@dataclass(frozen=True)
class Coded:
    """A column of few different values: each by its position among them."""

    codes: NDArray[np.int64]
    values: Sequence[Any]

    def __len__(self) -> int:
        return len(self.codes)

    def plain(self) -> NDArray[np.object_]:
        """Return the values, one a row."""
        held = np.empty(len(self.values), object)
        held[:] = list(self.values)
        return held[self.codes]


Table = dict[str, NDArray[Any] | Coded]
"""The columns of a table by name."""


def table(ranks: dict[int, Rank], known: Catalogue, query: Query, stats: Sequence[str] | None) -> Table:
    """Return the rows with their names and these statistics; by default all of them, and every metric."""
    rows = gathering.statistics(ranks, known, query)
    wanted = list(stats) if stats is not None else [*DERIVED, *known.metrics]
    names = list(dict.fromkeys(metric_of(stat)[0] if stat not in known.metrics else stat for stat in wanted))
    found = {name: gathering.values(ranks, known, query, name) for name in names if name in known.metrics}
    rows, metrics = _with_metrics(rows, found)
    metrics = {name: column for name, column in metrics.items() if name in wanted or metric_of(name)[0] in wanted}
    in_order = np.lexsort([rows[key] for key in ("call", "tensor", "order", "step")])
    rows, metrics = chosen(rows, in_order), chosen(metrics, in_order)
    out = _names(rows, known, query.rank)
    for stat in wanted:
        if stat not in known.metrics and (derive := derivation(stat)) is not None:
            out[stat] = derive(rows)
    out.update(metrics)
    return out


def presented(held: Table, as_: As) -> Any:
    """Return the table as the library that was asked for knows it.

    Raises:
        ImportError: if that is not installed.
        ValueError: if it is none of those.
    """
    if as_ == "numpy":
        return {name: column.plain() if isinstance(column, Coded) else column for name, column in held.items()}
    if as_ == "pandas":
        return _pandas(held)
    if as_ == "arrow":
        return _arrow(held)
    if as_ == "polars":
        return extra("polars").from_arrow(_arrow(held))
    raise ValueError(f'as_ must be "pandas", "arrow", "polars" or "numpy", not {as_!r}.')


def extra(module: str, instead: str = 'use as_="numpy"') -> Any:
    """Return a package that is only needed for this; `instead` is what needs none.

    Raises:
        ImportError: with the command that installs it.
    """
    try:
        return import_module(module)
    except ImportError as error:
        fix = "pip install polars" if module == "polars" else "pip install 'backsight[runs]'"
        raise ImportError(f"This needs {module}, which is not installed: {fix}. Or {instead}.") from error


def _names(rows: Columns, known: Catalogue, rank: int | None) -> Table:
    tensors, held = _used(rows["tensor"], list(known.tensors.values()))
    entry, entries = _used(rows["entry"], known.entries)
    out: Table = {
        "step": rows["step"],
        "tensor": Coded(tensors, [each.name for each in held]),
        "kind": Coded(tensors, [each.kind for each in held]),
        "module": Coded(tensors, [each.module for each in held]),
        "call": rows["call"],
        "shape": Coded(entry, [each.shape for each in entries]),
        "dtype": Coded(entry, [each.dtype for each in entries]),
    }
    out["rank" if rank is not None else "ranks"] = rows["rank" if rank is not None else "ranks"]
    return out


def _used(codes: NDArray[np.int64], tensors: list[Tensor]) -> tuple[NDArray[np.int64], list[Tensor]]:
    """Return the tensors that are used, and codes for them: a table of one tensor is not to cost as much as of all."""
    occurs = np.zeros(len(tensors), bool)
    occurs[codes] = True
    return (np.cumsum(occurs) - 1)[codes], [tensors[k] for k in np.flatnonzero(occurs).tolist()]


def _with_metrics(rows: Columns, found: dict[str, Columns]) -> tuple[Columns, Columns]:
    """Return the rows and, beside each, the values of the metrics; a metric without a row gets one of count 0."""
    columns = {
        element_name(name, element): chosen(held, held["element"] == element)
        for name, held in found.items()
        for element in np.unique(held["element"]).tolist()
    }
    if not columns:
        return rows, {}
    parts = [rows, *(_blank(rows, held) for held in columns.values())]
    every = {name: np.concatenate([part[name] for part in parts]) for name in rows}
    every["at"] = np.arange(rows_in(every))
    every, starts = grouped(every, KEYS)  # stable, so that the true row of a group, if there is one, is its first
    group = np.empty(rows_in(every), "<i8")
    group[every.pop("at")] = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, rows_in(every))))
    metrics, position = {}, rows_in(rows)
    for name, held in columns.items():
        metrics[name] = np.full(len(starts), np.nan)
        metrics[name][group[position : position + rows_in(held)]] = held["value"]
        position += rows_in(held)
    return chosen(every, starts), metrics


def _blank(rows: Columns, held: Columns) -> Columns:
    """Rows with the keys of a metric's values and nothing measured."""
    size = rows_in(held)
    return {name: held.get(name, np.zeros(size, column.dtype)) for name, column in rows.items()}


def _pandas(held: Table) -> Any:
    pandas = extra("pandas")
    columns = {}
    for name, column in _in_utf8(held).items():
        if not isinstance(column, Coded):
            columns[name] = column
        elif name == "shape":
            columns[name] = column.plain()
        else:
            codes, categories = _distinct(column)
            columns[name] = pandas.Categorical.from_codes(codes, categories)
    return pandas.DataFrame(columns)


def _arrow(held: Table) -> Any:
    arrow = extra("pyarrow")
    columns = {}
    for name, column in _in_utf8(held).items():
        if not isinstance(column, Coded):
            columns[name] = arrow.array(column)
            continue
        kind = arrow.list_(arrow.int64()) if name == "shape" else arrow.string()
        values = [list(each) if name == "shape" and each is not None else each for each in column.values]
        taken = arrow.array(values, kind).take(arrow.array(column.codes))
        columns[name] = taken if name == "shape" else taken.dictionary_encode()
    return arrow.table(columns)


def _distinct(column: Coded) -> tuple[NDArray[np.int64], list[str]]:
    """Return codes among different values, -1 for None: as pandas wants them."""
    categories = list(dict.fromkeys(each for each in column.values if each is not None))
    position = {each: k for k, each in enumerate(categories)}
    of_value = np.array([position.get(each, -1) for each in column.values], "<i8")
    return (of_value[column.codes] if len(of_value) else column.codes), categories


def _in_utf8(held: Table) -> Table:
    """Return the table as others can hold it: half a surrogate pair cannot be UTF-8, and is escaped."""
    return {
        _utf8(name): Coded(column.codes, list(map(_utf8, column.values))) if isinstance(column, Coded) else column
        for name, column in held.items()
    }


def _utf8(value: Any) -> Any:
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value
