"""The stores that `store.py` compares: each appends rows a step at a time, and reads them."""

from __future__ import annotations

import datetime
import json
import sqlite3
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import numpy as np

from backsight.runs import BINS, STATISTICS, RunWriter, open_run

try:
    import pyarrow as pa
    import pyarrow.parquet as pq
except ImportError:
    pa = pq = None
try:
    import duckdb
except ImportError:
    duckdb = None
try:
    import h5py
except ImportError:
    h5py = None
try:
    import lance
except ImportError:
    lance = None
try:
    import zarr
except ImportError:
    zarr = None

NAMES = STATISTICS.names or ()


class Store(ABC):
    """One way to keep rows: appended a step at a time, flushed each step, closed, read."""

    name: str
    live = "*"
    """Which files hold what was written last: the ones that a damaged disk or a kill would hit."""
    slow = 1
    """The long run is shortened by this, where it would take an hour."""

    def __init__(self, path: Path, tensors: int):
        self.path = path
        self.ids = np.arange(tensors)

    @abstractmethod
    def append(self, step: int, rows: np.ndarray, flush: bool) -> None: ...

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    def series(self, tensor: int) -> tuple[np.ndarray, np.ndarray]:
        """Steps and means of one tensor."""

    @abstractmethod
    def latest(self) -> int:
        """Read the newest step; how many rows it has."""

    @abstractmethod
    def everything(self) -> Any:
        """All rows: tensor, step, and the numbers."""


class Backsight(Store):
    name = "backsight blocks"
    live = "*.live"

    def __init__(self, path: Path, tensors: int):
        super().__init__(path, tensors)
        self.writer = RunWriter(path)
        for k in range(tensors):
            self.writer.tensor(f"t{k}", "weight", "", (3,), "float32")

    def append(self, step: int, rows: np.ndarray, flush: bool) -> None:
        self.writer.append(step, self.ids, rows)
        if flush:
            self.writer.flush()

    def close(self) -> None:
        self.writer.close()

    def series(self, tensor: int) -> tuple[np.ndarray, np.ndarray]:
        found = open_run(self.path).series(f"t{tensor}", "mean", points=2000)
        return found.steps, found.values

    def latest(self) -> int:
        return len(open_run(self.path).latest(as_="numpy")["step"])

    def everything(self) -> Any:
        held = open_run(self.path).frame(as_="numpy")
        tensors = [int(name[1:]) for name in held["tensor"]]
        return list(zip(tensors, held["step"], *(held[name] for name in NAMES), strict=True))


class Histograms(Backsight):
    name = "backsight, histograms"

    def __init__(self, path: Path, tensors: int):
        super().__init__(path, tensors)
        rng = np.random.default_rng(0)  # what magnitudes of weights look like: 18 bins, sampled to 8192 elements
        counts = np.zeros((tensors, BINS), "<u4")
        counts[:, 30:48] = rng.multinomial(8192, 2.0 ** -np.arange(18, 0, -1), tensors)
        self.counts = counts

    def append(self, step: int, rows: np.ndarray, flush: bool) -> None:
        self.writer.append(step, self.ids, rows, histograms=self.counts, negatives=self.counts // 2)
        if flush:
            self.writer.flush()


class Arrow(Store):
    """IPC stream segments of one record batch a flush; full ones become Parquet, sorted by tensor."""

    name = "Arrow IPC -> Parquet"
    live = "*.arrows"
    SEGMENT = 1 << 18  # rows

    def __init__(self, path: Path, tensors: int):
        super().__init__(path, tensors)
        path.mkdir()
        fields = [("tensor", pa.uint32()), ("step", pa.int64()), ("call", pa.uint16())]
        fields += [(name, pa.int64() if STATISTICS[name].kind == "i" else pa.float64()) for name in NAMES]
        self.schema, self.segment, self.rows, self.batches = pa.schema(fields), 0, 0, []
        self._open()

    def _open(self) -> None:
        self.file = (self.path / f"{self.segment:06d}.arrows").open("wb", buffering=0)
        self.stream = pa.ipc.new_stream(self.file, self.schema)

    def append(self, step: int, rows: np.ndarray, flush: bool) -> None:
        n = len(rows)
        arrays = [pa.array(self.ids, pa.uint32()), pa.array(np.full(n, step)), pa.array(np.zeros(n, "u2"))]
        arrays += [pa.array(np.ascontiguousarray(rows[name])) for name in NAMES]
        self.batches.append(pa.record_batch(arrays, schema=self.schema))
        if not flush:
            return
        whole = self.batches[0] if len(self.batches) == 1 else pa.concat_batches(self.batches)
        self.batches = []
        self.stream.write_batch(whole)
        self.rows += whole.num_rows
        if self.rows >= self.SEGMENT:
            self._compact()
            self._open()

    def _compact(self) -> None:
        self.stream.close()
        self.file.close()
        path = self.path / f"{self.segment:06d}.arrows"
        table = pa.ipc.open_stream(path).read_all().sort_by([("tensor", "ascending"), ("step", "ascending")])
        pq.write_table(table, path.with_suffix(".parquet"), compression="zstd", row_group_size=1 << 15)
        path.unlink()
        self.segment, self.rows = self.segment + 1, 0

    def close(self) -> None:
        if self.rows:
            self._compact()

    def _live(self) -> Any:
        path = self.path / f"{self.segment:06d}.arrows"
        if not path.exists():
            return self.schema.empty_table()
        batches = []
        try:
            with pa.ipc.open_stream(path) as stream:
                batches += stream
        except (pa.ArrowInvalid, OSError):
            pass  # a torn tail; so is a stream without its end mark
        return pa.Table.from_batches(batches, self.schema)

    def rows_of(self, tensor: int | None, columns: list[str]) -> Any:
        filters = None if tensor is None else [("tensor", "=", tensor)]
        parts = [pq.read_table(path, columns=columns, filters=filters) for path in sorted(self.path.glob("*.parquet"))]
        live = self._live()
        if tensor is not None:
            live = live.filter(pa.compute.equal(live["tensor"], tensor))
        return pa.concat_tables([*parts, live.select(columns)])

    def series(self, tensor: int) -> tuple[np.ndarray, np.ndarray]:
        table = self.rows_of(tensor, ["step", "mean"])
        return extremes(table["step"].to_numpy(), table["mean"].to_numpy())

    def everything(self) -> Any:
        table = self.rows_of(None, ["tensor", "step", *NAMES])
        return list(zip(*(table[name].to_pylist() for name in table.column_names), strict=True))

    def latest(self) -> int:
        live = self._live()
        newest = live if live.num_rows else pq.read_table(max(self.path.glob("*.parquet")))
        return int(newest.filter(pa.compute.equal(newest["step"], pa.compute.max(newest["step"]))).num_rows)


class SQLite(Store):
    name = "SQLite (WAL)"
    live = "run.db*"

    def __init__(self, path: Path, tensors: int):
        super().__init__(path, tensors)
        path.mkdir()
        self.db = sqlite3.connect(path / "run.db", isolation_level=None, check_same_thread=False)
        self.db.execute("pragma journal_mode = wal")
        self.db.execute("pragma synchronous = normal")
        columns = ", ".join(NAMES)
        self.db.execute(
            f"create table rows (tensor, step, call, {columns}, primary key (tensor, step, call)) without rowid"
        )
        self.insert = f"insert into rows values ({', '.join('?' * (3 + len(NAMES)))})"
        self.open = False

    def append(self, step: int, rows: np.ndarray, flush: bool) -> None:
        if not self.open:
            self.db.execute("begin")
            self.open = True
        self.db.executemany(self.insert, [(k, step, 0, *row) for k, row in enumerate(rows.tolist())])
        if flush:
            self.db.execute("commit")
            self.open = False

    def close(self) -> None:
        if self.open:
            self.db.execute("commit")
        self.db.close()

    def _read(self, query: str, *values: int) -> list[Any]:
        db = sqlite3.connect(self.path / "run.db")
        try:
            return db.execute(query, values).fetchall()
        finally:
            db.close()

    def series(self, tensor: int) -> tuple[np.ndarray, np.ndarray]:
        rows = np.array(self._read("select step, mean from rows where tensor = ? order by step", tensor))
        return extremes(rows[:, 0], rows[:, 1])

    def everything(self) -> Any:
        return self._read(f"select tensor, step, {', '.join(NAMES)} from rows")

    def latest(self) -> int:
        newest = self._read("select max(step) from rows where tensor = 0")[0][0]
        ids = range(len(self.ids))
        return sum(len(self._read("select * from rows where tensor = ? and step = ?", k, newest)) for k in ids)


class JsonLines(Store):
    name = "JSON lines"
    slow = 10

    def __init__(self, path: Path, tensors: int):
        super().__init__(path, tensors)
        path.mkdir()
        self.file = (path / "rows.jsonl").open("w")

    def append(self, step: int, rows: np.ndarray, flush: bool) -> None:
        for k, row in enumerate(rows.tolist()):
            held = dict(zip(NAMES, row, strict=True))
            self.file.write(json.dumps({"tensor": k, "step": step, "call": 0, **held}) + "\n")
        if flush:
            self.file.flush()

    def close(self) -> None:
        self.file.close()

    def _read(self) -> list[dict[str, Any]]:
        rows = []
        with open(self.path / "rows.jsonl", errors="replace") as file:
            for line in file:
                try:
                    rows.append(json.loads(line))
                except ValueError:
                    continue
        return rows

    def series(self, tensor: int) -> tuple[np.ndarray, np.ndarray]:
        rows = [(row["step"], row["mean"]) for row in self._read() if row.get("tensor") == tensor]
        held = np.array(rows)
        return extremes(held[:, 0], held[:, 1])

    def everything(self) -> Any:
        wanted = ("tensor", "step", *NAMES)
        return [tuple(row[name] for name in wanted) for row in self._read() if row.keys() >= set(wanted)]

    def latest(self) -> int:
        rows = self._read()
        return sum(row["step"] == rows[-1]["step"] for row in rows)


class DuckDB(Store):
    """Rows appended as an Arrow table; a transaction a flush."""

    name = "DuckDB"
    slow = 20

    def __init__(self, path: Path, tensors: int):
        super().__init__(path, tensors)
        path.mkdir()
        self.db = duckdb.connect(str(path / "run.duckdb"))
        columns = ", ".join(f"{name} {'bigint' if STATISTICS[name].kind == 'i' else 'double'}" for name in NAMES)
        self.db.execute(f"create table rows (tensor uinteger, step bigint, {columns})")
        self.waiting: list[tuple[int, np.ndarray]] = []

    def append(self, step: int, rows: np.ndarray, flush: bool) -> None:
        self.waiting.append((step, rows))
        if not flush:
            return
        held = np.concatenate([rows for _, rows in self.waiting])
        steps = np.repeat([step for step, _ in self.waiting], len(rows))
        columns = {"tensor": np.tile(self.ids, len(self.waiting)), "step": steps}
        columns |= {name: np.ascontiguousarray(held[name]) for name in NAMES}
        table = pa.table(columns)
        self.db.register("arrived", table)
        self.db.execute("insert into rows select * from arrived")
        self.db.unregister("arrived")
        self.waiting = []

    def close(self) -> None:
        self.db.close()

    def _read(self, query: str) -> Any:
        db = duckdb.connect(str(self.path / "run.duckdb"), read_only=True)
        try:
            return db.execute(query).fetchnumpy()
        finally:
            db.close()

    def series(self, tensor: int) -> tuple[np.ndarray, np.ndarray]:
        rows = self._read(f"select step, mean from rows where tensor = {tensor} order by step")
        return extremes(rows["step"], rows["mean"])

    def everything(self) -> Any:
        held = self._read(f"select tensor, step, {', '.join(NAMES)} from rows")
        return list(zip(*(np.asarray(column).tolist() for column in held.values()), strict=True))

    def latest(self) -> int:
        return len(self._read("select * from rows where step = (select max(step) from rows)")["step"])


class HDF5(Store):
    """A resizable table of compound rows, in chunks; flushed to the system a step at a time."""

    name = "HDF5"
    slow = 10

    def __init__(self, path: Path, tensors: int):
        super().__init__(path, tensors)
        path.mkdir()
        self.row = np.dtype([("tensor", "<u4"), ("step", "<i8"), *((name, STATISTICS[name]) for name in NAMES)])
        self.file = h5py.File(path / "run.h5", "w", libver="latest")
        self.rows = self.file.create_dataset("rows", (0,), self.row, maxshape=(None,), chunks=(1 << 12,))
        self.file.swmr_mode = True  # what a reader sees is whole

    def append(self, step: int, rows: np.ndarray, flush: bool) -> None:
        held = np.zeros(len(rows), self.row)
        held["tensor"], held["step"] = self.ids, step
        for name in NAMES:
            held[name] = rows[name]
        self.rows.resize((len(self.rows) + len(held),))
        self.rows[-len(held) :] = held
        if flush:
            self.rows.flush()

    def close(self) -> None:
        self.file.close()

    def _read(self) -> np.ndarray:
        with h5py.File(self.path / "run.h5", "r", libver="latest", swmr=True) as file:
            return file["rows"][:]

    def series(self, tensor: int) -> tuple[np.ndarray, np.ndarray]:
        rows = self._read()
        rows = rows[rows["tensor"] == tensor]
        return extremes(rows["step"], rows["mean"])

    def everything(self) -> Any:
        return self._read().tolist()

    def latest(self) -> int:
        rows = self._read()
        return int((rows["step"] == rows["step"][-1]).sum())


class Zarr(Store):
    """One array of doubles, in chunks of whole steps: a flush writes the last chunk again."""

    name = "Zarr"
    slow = 20

    def __init__(self, path: Path, tensors: int):
        super().__init__(path, tensors)
        self.file = zarr.create_array(
            path, shape=(0, tensors, 1 + len(NAMES)), chunks=(64, tensors, 1 + len(NAMES)), dtype="f8"
        )
        self.waiting: list[np.ndarray] = []

    def append(self, step: int, rows: np.ndarray, flush: bool) -> None:
        held = np.stack([np.full(len(rows), float(step)), *(rows[name].astype("f8") for name in NAMES)], -1)
        self.waiting.append(held)
        if flush:
            self.file.append(np.stack(self.waiting))
            self.waiting = []

    def close(self) -> None:
        pass

    def _read(self) -> np.ndarray:
        return zarr.open_array(self.path, mode="r")[:]

    def series(self, tensor: int) -> tuple[np.ndarray, np.ndarray]:
        held = zarr.open_array(self.path, mode="r")[:, tensor]
        return extremes(held[:, 0].astype(int), held[:, 1 + NAMES.index("mean")])

    def everything(self) -> Any:
        held = self._read()
        return [(tensor, int(row[0]), *row[1:].tolist()) for step in held for tensor, row in enumerate(step)]

    def latest(self) -> int:
        return len(zarr.open_array(self.path, mode="r")[-1])


class Lance(Store):
    """A fragment and a version a flush, as its appends are."""

    name = "Lance"
    slow = 100

    def __init__(self, path: Path, tensors: int):
        super().__init__(path, tensors)
        self.waiting: list[Any] = []

    def append(self, step: int, rows: np.ndarray, flush: bool) -> None:
        columns = {"tensor": self.ids.astype("u4"), "step": np.full(len(rows), step)}
        self.waiting.append(pa.table(columns | {name: np.ascontiguousarray(rows[name]) for name in NAMES}))
        if flush:
            lance.write_dataset(pa.concat_tables(self.waiting), str(self.path), mode="append")
            self.waiting = []

    def close(self) -> None:
        held = lance.dataset(str(self.path))
        held.optimize.compact_files()
        held.cleanup_old_versions(older_than=datetime.timedelta(0))

    def series(self, tensor: int) -> tuple[np.ndarray, np.ndarray]:
        table = lance.dataset(str(self.path)).to_table(columns=["step", "mean"], filter=f"tensor = {tensor}")
        return extremes(table["step"].to_numpy(), table["mean"].to_numpy())

    def everything(self) -> Any:
        table = lance.dataset(str(self.path)).to_table(columns=["tensor", "step", *NAMES])
        return list(zip(*(table[name].to_pylist() for name in table.column_names), strict=True))

    def latest(self) -> int:
        held = lance.dataset(str(self.path))
        newest = pa.compute.max(held.to_table(columns=["step"])["step"]).as_py()
        return int(held.to_table(filter=f"step = {newest}").num_rows)


STORES: list[type[Store]] = [
    *(Backsight, Histograms),
    *([Arrow] if pa else []),
    SQLite,
    *([DuckDB] if pa and duckdb else []),
    *([Lance] if pa and lance else []),
    *([Zarr] if zarr else []),
    *([HDF5] if h5py else []),
    JsonLines,
]
"""Those that are installed: `pip install pyarrow duckdb pylance zarr h5py` has them all."""


def extremes(steps: np.ndarray, values: np.ndarray, points: int = 2000) -> tuple[np.ndarray, np.ndarray]:
    """Thin a series as `Run.series` does, for those that do not do it themselves."""
    bounds = np.linspace(0, len(values), points // 2 + 1).astype(int)[:-1]
    return steps[bounds], np.concatenate((np.fmin.reduceat(values, bounds), np.fmax.reduceat(values, bounds)))
