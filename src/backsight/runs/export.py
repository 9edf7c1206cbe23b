"""A run as one file that other programs read: Parquet, CSV or JSON lines, tensor by tensor."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from backsight.runs.catalogue import Catalogue
from backsight.runs.derived import DERIVED
from backsight.runs.frame import Table, extra, presented, table
from backsight.runs.gathering import Query, elements
from backsight.runs.rank import Rank

Chunks = Iterator[Table]
Exporter = Callable[[Chunks, Path], None]

EXPORTERS: dict[str, Exporter] = {}
"""How to export, by the ending of the file's name."""


def exporter(ending: str) -> Callable[[Exporter], Exporter]:
    """Register a function that writes chunks of a table, all of the same columns, into a file of this ending."""

    def register(function: Exporter) -> Exporter:
        EXPORTERS[ending] = function
        return function

    return register


def tables(ranks: dict[int, Rank], known: Catalogue, by_rank: bool = False) -> Chunks:
    """Yield the rows of each tensor, all with the same columns: ranks merged, or one below the other."""
    every = Query(tuple(known.tensors))
    columns = [column for metric in known.metrics for column in elements(ranks, known, every, metric)]
    numbers: list[int | None] = [*ranks] if by_rank else [None]
    one_by_one = [Query((key,), rank=number) for key in known.tensors for number in numbers]
    for query in one_by_one or [Query((), rank=numbers[0])]:  # of a run without a tensor, a table without a row
        found = table(ranks, known, query, [*DERIVED, *columns])
        nothing = np.full(len(found["step"]), np.nan)
        first = {name: column for name, column in found.items() if name not in columns}
        yield {**first, **{column: found.get(column, nothing) for column in columns}}  # in one order for all tensors


def export(chunks: Chunks, path: Path) -> None:
    """Write the chunks to a file whose ending says how; it appears only when it is whole.

    Raises:
        ValueError: if the ending is none that is known.
        ImportError: if Parquet is asked for without pyarrow.
    """
    write = EXPORTERS.get(path.suffix)
    if write is None:
        raise ValueError(
            f"A run can be exported to {', '.join(sorted(EXPORTERS))}, but {path.name!r} ends in {path.suffix!r}."
        )
    unfinished = path.with_name(f"{path.name}.unfinished")
    try:
        write(chunks, unfinished)
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)


@exporter(".parquet")
def parquet(chunks: Chunks, path: Path) -> None:
    """A row group for each tensor (and rank, by rank), so that a reader of one skips the rest."""
    try:
        extra("pyarrow")
    except ImportError as error:
        raise ImportError(f"{error} Or end the name in .csv or .jsonl.") from error
    engine, writer = extra("pyarrow.parquet"), None
    try:
        for chunk in chunks:
            rows = presented(chunk, "arrow")
            if writer is None:
                writer = engine.ParquetWriter(path, rows.schema, compression="zstd")
            writer.write_table(rows)
    finally:
        if writer is not None:
            writer.close()


@exporter(".csv")
def comma_separated(chunks: Chunks, path: Path) -> None:
    """RFC 4180, UTF-8; a shape as 64x10, what is not known as nothing, and NUL, which it cannot hold, as \\0."""
    with open(path, "w", encoding="utf-8", errors="backslashreplace", newline="") as file:
        writer = csv.writer(file)
        for k, chunk in enumerate(chunks):
            if not k:
                writer.writerow(map(_cell, chunk))
            writer.writerows([_cell(value) for value in row] for row in _rows(chunk))


@exporter(".jsonl")
def json_lines(chunks: Chunks, path: Path) -> None:
    """An object a row; NaN and the infinities, which JSON does not know, as null, "inf" and "-inf"."""
    with open(path, "w", encoding="ascii") as file:
        for chunk in chunks:
            for row in _rows(chunk):
                _write_object(dict(zip(chunk, row, strict=True)), file)


def _rows(chunk: Table) -> Iterator[tuple[Any, ...]]:
    return zip(*(column.tolist() for column in presented(chunk, "numpy").values()), strict=True)


def _cell(value: Any) -> Any:
    if type(value) is str:
        return value.replace("\0", "\\0")
    return "x".join(map(str, value)) if type(value) is tuple else value


def _write_object(row: dict[str, Any], file: IO[str]) -> None:
    held = {name: _json_float(value) if type(value) is float else value for name, value in row.items()}
    file.write(json.dumps(held, allow_nan=False) + "\n")


def _json_float(value: float) -> float | str | None:
    return None if value != value else str(value) if value in (float("inf"), float("-inf")) else value
