"""The store beside what else could have been one: Arrow with Parquet, SQLite, JSON lines.

    python bench/store.py                    # some minutes, and 4 GB of disk for a while
    python bench/store.py --steps 20000      # a quick look

All stores get the same rows: id, step, call and the ten numbers of a tensor. "CPU" is the processor time of the thread
that calls: the most for which it can hold the interpreter's lock. The rest of the time it waits for the disk, or for a
processor.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sqlite3
import statistics
import tempfile
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from backsight.runs import BINS, STATISTICS, RunWarning, RunWriter, open_run

try:
    import pyarrow as pa
    import pyarrow.parquet as pq
except ImportError:
    pa = pq = None

TENSORS = 300  # of the model whose writing is measured
FEW = 8  # tensors of the long run
NAMES = STATISTICS.names or ()
ROUNDS = 5


class Store(ABC):
    """One way to keep rows: appended a step at a time, flushed each step, closed, read."""

    name: str

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
        self.writer.append(step, self.ids, rows, histograms=self.counts)
        if flush:
            self.writer.flush()


class Arrow(Store):
    """IPC stream segments of one record batch a flush; full ones become Parquet, sorted by tensor."""

    name = "Arrow IPC -> Parquet"
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


STORES: list[type[Store]] = [Backsight, Histograms, *([Arrow] if pa else []), SQLite, JsonLines]


def extremes(steps: np.ndarray, values: np.ndarray, points: int = 2000) -> tuple[np.ndarray, np.ndarray]:
    """Thin a series as `Run.series` does, for those that do not do it themselves."""
    bounds = np.linspace(0, len(values), points // 2 + 1).astype(int)[:-1]
    return steps[bounds], np.concatenate((np.fmin.reduceat(values, bounds), np.fmax.reduceat(values, bounds)))


def some_rows(tensors: int, count: int) -> list[np.ndarray]:
    """Rows as tensors of float32 give them: a fixed count, means of full precision, extremes of single."""
    rng = np.random.default_rng(0)
    sizes, out = rng.integers(64, 10**6, tensors), []
    for _ in range(count):
        rows = np.zeros(tensors, STATISTICS)
        rows["count"], rows["mean"] = sizes, rng.normal(size=tensors)
        rows["m2"] = rng.random(tensors) * sizes
        rows["min"] = (rows["mean"] - 4).astype("f4")
        rows["max"] = (rows["mean"] + 4).astype("f4")
        rows["zeros"][::3] = rng.integers(0, sizes[::3])
        out.append(rows)
    return out


def size(path: Path) -> int:
    return sum(found.stat().st_size for found in path.rglob("*") if found.is_file())


def timed(action: Callable[[], Any]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def writing(folder: Path) -> None:
    """300 tensors a step, flushed each step."""
    print(f"Writing {TENSORS} tensors a step, flushed each step")
    print(f"{'':24}{'us a step':>11}{'CPU us':>9}{'bytes a row, live':>19}{'closed':>9}")
    rows = some_rows(TENSORS, 200)
    for kind in STORES:
        store = kind(folder / kind.__name__, TENSORS)
        times, used = [], []
        for k in range(200):
            before = time.thread_time()
            times.append(timed(lambda s=store, k=k: s.append(k, rows[k], True)))
            used.append(time.thread_time() - before)
        live = size(store.path) / (200 * TENSORS)
        store.close()
        again = kind(folder / f"{kind.__name__}-200", TENSORS)
        for k in range(200):
            again.append(k, rows[k % len(rows)], True)
        again.close()
        closed = size(again.path) / (200 * TENSORS)
        spent, cpu = statistics.median(times) * 1e6, statistics.median(used) * 1e6
        print(f"{kind.name:24}{spent:11.0f}{cpu:9.0f}{live:19.1f}{closed:9.1f}")
        shutil.rmtree(store.path)
        shutil.rmtree(again.path)


def reading(folder: Path, steps: int) -> None:
    """A long run of a few tensors: a series thinned to 2,000 points, and the newest step."""
    print(f"\nA run of {FEW} tensors, {steps:,} steps, flushed every 8")
    print(f"{'':24}{'write s':>9}{'CPU s':>8}{'close s':>9}{'MB':>8}{'files':>7}{'series ms':>11}{'latest ms':>11}")
    rows = some_rows(FEW, 20_011)  # more than a compressor looks back over
    for kind in STORES:
        part = steps if kind is not JsonLines else steps // 10
        store = kind(folder / kind.__name__, FEW)
        before = time.process_time()
        wrote = timed(lambda s=store, n=part: [s.append(k, rows[k % len(rows)], k % 8 == 7) for k in range(n)])
        closed = timed(store.close)
        used = time.process_time() - before
        held = [found for found in store.path.rglob("*") if found.is_file()]
        series = statistics.median(timed(lambda s=store: s.series(3)) for _ in range(ROUNDS))
        latest = statistics.median(timed(store.latest) for _ in range(ROUNDS))
        note = "" if part == steps else f"  (of {part:,} steps)"
        print(
            f"{kind.name:24}{wrote:9.1f}{used:8.1f}{closed:9.2f}{size(store.path) / 1e6:8.1f}{len(held):7}"
            f"{series * 1e3:11.1f}{latest * 1e3:11.1f}{note}"
        )
        shutil.rmtree(store.path)


def damage(folder: Path) -> None:
    """The live file of 200 steps cut, or with one bit flipped, at random; which answers are wrong, or none."""
    print("\nThe file of a killed run of 8 tensors, 200 steps: 60 times cut, 60 times a bit flipped")
    print(f"{'':24}{'cut: no answer':>16}{'wrong':>7}{'flip: no answer':>17}{'wrong':>7}{'lost rows':>12}")
    rows = some_rows(FEW, 200)
    written = {(t, k): row for k in range(200) for t, row in enumerate(rows[k % len(rows)].tolist())}
    for kind in STORES:
        if kind is Histograms:
            continue
        source = kind(folder / "source", FEW)
        for k in range(200):
            source.append(k, rows[k % len(rows)], True)
        random.seed(0)
        results = [outcome(kind, source, folder / "copy", cut, written) for cut in [True] * 60 + [False] * 60]
        source.close()
        shutil.rmtree(source.path)
        cut, flip = results[:60], results[60:]
        lost = statistics.mean(held for held in flip if held >= 0) if max(flip) >= 0 else len(written)
        counts = [sum(held == what for held in part) for part in (cut, flip) for what in (-1, -2)]
        print(f"{kind.name:24}{counts[0]:16}{counts[1]:7}{counts[2]:17}{counts[3]:7}{lost:12.1f}")


def outcome(kind: type[Store], source: Store, copy: Path, cut: bool, written: dict[Any, Any]) -> int:
    """How many rows are lost of a damaged copy; -1 if it gives no answer, -2 if it gives a wrong number."""
    shutil.copytree(source.path, copy)
    try:
        files = [found for found in copy.rglob("*") if found.suffix in (".live", ".arrows", ".jsonl", ".db", ".db-wal")]
        target = max(
            (found for found in files if found.name != "tensors.jsonl"), key=lambda found: found.stat().st_size
        )
        data = bytearray(target.read_bytes())
        at = random.randrange(len(data) // 4, len(data))
        if cut:
            data = data[:at]
        else:
            data[at] ^= 1 << random.randrange(8)
        target.write_bytes(data)
        reader = object.__new__(kind)
        reader.__dict__.update({**source.__dict__, "path": copy})
        return judged(reader, written)
    finally:
        shutil.rmtree(copy)


def judged(reader: Store, written: dict[tuple[int, int], tuple[float, ...]]) -> int:
    try:
        read = reader.everything()
    except Exception:
        return -1
    right = [tuple(row[2:]) == written.get((row[0], row[1])) for row in read]
    return len(written) - len(right) if all(right) else -2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=1_000_000)
    steps = parser.parse_args().steps
    warnings.simplefilter("ignore", RunWarning)  # damage is what is measured
    with tempfile.TemporaryDirectory() as held:
        folder = Path(held)
        writing(folder)
        reading(folder, steps)
        damage(folder)


if __name__ == "__main__":
    main()
