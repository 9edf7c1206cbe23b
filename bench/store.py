"""The store beside what else could have been one: Arrow with Parquet, SQLite, JSON lines.

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
from _stores import STORES, Histograms, JsonLines, Store

from backsight.runs import STATISTICS, RunWarning

TENSORS = 300  # of the model whose writing is measured
FEW = 8  # tensors of the long run
ROUNDS = 5


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
