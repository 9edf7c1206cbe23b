"""The store beside what else could have been one: Arrow with Parquet, SQLite, DuckDB, Lance, Zarr, HDF5, JSON lines.

    python bench/store.py                    # some minutes, and 4 GB of disk for a while
    python bench/store.py --steps 20000      # a quick look

All stores get the same rows: id, step, call and the ten numbers of a tensor. "CPU" is the processor time of the thread
that calls: the most for which it can hold the interpreter's lock. The rest of the time it waits for the disk, or for a
processor.
"""

from __future__ import annotations

import argparse
import random
import shutil
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from _measure import median, report, simple_table
from _stores import STORES, Backsight, Histograms, Store
from rich.table import Table

from backsight.runs import STATISTICS, RunWarning

TENSORS = 300  # of the model whose writing is measured
FEW = 8  # tensors of the long run
ROUNDS = 5
ENOUGH = 1.5
"""How many times our cost a kept format may have and still be taken: one format less to keep."""


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


def writing(folder: Path) -> tuple[Table, dict[str, float]]:
    """300 tensors a step, flushed each step; return a table, and the microseconds of a step."""
    title = f"Writing {TENSORS} tensors a step, flushed each step"
    table = simple_table("", "us a step", "CPU us", "bytes a row, live", "closed", title=title)
    rows, costs = some_rows(TENSORS, 200), {}
    for kind in STORES:
        store = kind(folder / kind.__name__, TENSORS)
        times, used = [], []
        for k in range(200):
            before = time.thread_time()
            times.append(timed(lambda s=store, k=k: s.append(k, rows[k], True)))
            used.append(time.thread_time() - before)
        live = size(store.path) / (200 * TENSORS)
        store.close()
        closed = size(store.path) / (200 * TENSORS)
        costs[kind.name] = median(times) * 1e6
        cpu = median(used) * 1e6
        table.add_row(kind.name, f"{costs[kind.name]:,.0f}", f"{cpu:,.0f}", f"{live:.1f}", f"{closed:.1f}")
        shutil.rmtree(store.path)
    return table, costs


def reading(folder: Path, steps: int) -> tuple[Table, dict[str, tuple[float, float]]]:
    """A long run of a few tensors: a series thinned to 2,000 points, and the newest step.

    Return a table, and seconds and bytes of a million steps.
    """
    title = f"A run of {FEW} tensors, flushed every 8 steps"
    table = simple_table("", "steps", "write s", "close s", "MB", "files", "series ms", "latest ms", title=title)
    rows, costs = some_rows(FEW, 20_011), {}  # more than a compressor looks back over
    for kind in STORES:
        part = max(steps // kind.slow, 200)
        store = kind(folder / kind.__name__, FEW)
        wrote = timed(lambda s=store, n=part: [s.append(k, rows[k % len(rows)], k % 8 == 7) for k in range(n)])
        closed = timed(store.close)
        held = size(store.path)
        files = sum(found.is_file() for found in store.path.rglob("*"))
        series = median(timed(lambda s=store: s.series(3)) for _ in range(ROUNDS)) * 1e3
        latest = median(timed(store.latest) for _ in range(ROUNDS)) * 1e3
        costs[kind.name] = (wrote + closed) / part * 1e6, held / part * 1e6
        cells = (f"{wrote:.1f}", f"{closed:.2f}", f"{held / 1e6:.1f}", f"{files:,}", f"{series:,.1f}", f"{latest:,.1f}")
        table.add_row(kind.name, f"{part:,}", *cells)
        shutil.rmtree(store.path)
    return table, costs


def damage(folder: Path) -> tuple[Table, dict[str, int]]:
    """The live files of 200 steps cut, or with one bit flipped, at random: what is answered.

    Return a table, and how often no number was right or one was wrong.
    """
    title = "What a killed run of 8 tensors, 200 steps, still answers: 60 times cut, 60 times a bit flipped"
    table = simple_table("", "cut: no answer", "wrong", "flip: no answer", "wrong", "rows lost", title=title)
    rows, failures = some_rows(FEW, 200), {}
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
        answered = [held for held in flip if held >= 0]
        lost = f"{statistics.mean(answered):.1f}" if answered else "all"
        counts = [sum(held == what for held in part) for part in (cut, flip) for what in (-1, -2)]
        failures[kind.name] = sum(counts)
        table.add_row(kind.name, *map(str, counts), lost)
    return table, failures


def outcome(kind: type[Store], source: Store, copy: Path, cut: bool, written: dict[Any, Any]) -> int:
    """How many rows are lost of a damaged copy; -1 if it gives no answer, -2 if it gives a wrong number."""
    shutil.copytree(source.path, copy)
    try:
        files = [found for found in copy.rglob(kind.live) if found.is_file()]
        target = max(files, key=lambda found: found.stat().st_size)
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


def judgement(costs: dict[str, float], long: dict[str, tuple[float, float]], failures: dict[str, int]) -> Table:
    """Say of each other store whether it could be ours: within 1.5 of our time and size, and as hard to damage."""
    title = f"As multiples of ours, and whether it could be ours: {ENOUGH} at most, and no more damaged files than ours"
    columns = ("time of a step", "time of a run", "size", "damaged files", "could be ours")
    table = simple_table("", *columns, title=title)
    ours = (costs[Backsight.name], *long[Backsight.name])
    for name, wrong in failures.items():
        ratios = [theirs / own for theirs, own in zip((costs[name], *long[name]), ours, strict=True)]
        could = max(ratios) <= ENOUGH and wrong <= failures[Backsight.name]
        table.add_row(name, *(f"{ratio:.1f}" for ratio in ratios), f"{wrong} of 120", "yes" if could else "no")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=1_000_000)
    steps = parser.parse_args().steps
    warnings.simplefilter("ignore", RunWarning)  # damage is what is measured
    with tempfile.TemporaryDirectory() as held:
        folder = Path(held)
        written, costs = writing(folder)
        read, long = reading(folder, steps)
        damaged, failures = damage(folder)
    report(written, read, damaged, judgement(costs, long, failures))


if __name__ == "__main__":
    main()
