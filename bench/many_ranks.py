"""A run of very many ranks, made up, opened in Python and in the viewer: seconds, of which the processor worked, and
the most memory of the process.

    python bench/many_ranks.py                    # 1,024 ranks of 10,000 steps and 300 tensors: some minutes
    python bench/many_ranks.py --ranks 64         # a quick look
    python bench/many_ranks.py --keep /data/run   # into this folder, kept and used again

One rank is written as its recording would write it, with a loss at each step. The folders of the others have manifests
of their own and hard links to its files, so the run takes little room, and reading it takes what reading so many files
of their own would, from the cache of the disk. Every question is asked by a new process, of a run that it has not seen.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from _measure import report, simple_table

from backsight.runs import STATISTICS, RunWriter, open_run
from backsight.runs.places import FORMAT, MANIFEST, VERSION, begin, rank_folder

KINDS = ("weight", "grad", "output")
LAYERS = 50
TENSORS = 2 * LAYERS * len(KINDS)
GOAL = "2 s, 1 GB"

QUESTIONS = {
    "open_run, steps, tensors": "run = open_run(path); run.steps, run.tensors, run.damage",
    "one series of one rank": "open_run(path).series('layers.3.weight', 'grad_norm', rank=7)",
    "one series, all ranks merged": "open_run(path).series('layers.3.weight', 'grad_norm')",
    "heatmap of gradients, one rank": "open_run(path).heatmap('norm', 'grad', rank=7)",
    "heatmap of gradients, all ranks merged": "open_run(path).heatmap('norm', 'grad')",
    "tags of all ranks": "open_run(path).tags()",
    "viewer: the list of runs": "viewed(path)",
    "viewer: the first page of a run": "viewed(path, 'about', 'heatmap', 'marks')",
    "viewer: metrics": "viewed(path, 'metrics')",
    "viewer: a tensor": "viewed(path, 'related', 'lines', 'histograms')",
    "viewer: findings": "viewed(path, 'findings')",
}


def make(path: Path, ranks: int, steps: int) -> None:
    """Write the first rank, and link the others to it."""
    with RunWriter(path, world=ranks, job="made up", config={"script": "ranks.py"}) as writer:
        names = [f"layers.{k}.{part}" for k in range(LAYERS) for part in ("weight", "bias")]
        numbers = [
            writer.tensor(name, kind, name.rpartition(".")[0], (512, 512), "float32", replicated=kind == "weight")
            for kind in KINDS
            for name in names
        ]
        rng = np.random.default_rng(0)
        scale = 10.0 ** (-4 * np.tile(np.arange(len(names)) / len(names), len(KINDS)))
        rows = np.zeros(TENSORS, STATISTICS)
        rows["count"] = 512 * 512
        for step in range(steps):
            std = (scale * rng.uniform(0.8, 1.25, TENSORS)).astype("f4")
            rows["mean"], rows["m2"] = 0.01 * std, (std * std * np.float32(512 * 512)).astype("f4")
            rows["min"], rows["max"] = -4 * std, 4 * std
            writer.append(step, numbers, rows)
            writer.mark(step, loss=3.0 / (1 + step / 1000) + 0.1 * float(std[0]))
    first = rank_folder(path, 0)
    for rank in range(1, ranks):
        manifest = {"format": FORMAT, "version": VERSION, "rank": rank, "world": ranks, "job": "made up"}
        folder = begin_quickly(path, rank, {**manifest, "created": time.time(), "config": {}, "environment": {}})
        for file in first.iterdir():
            if file.name != MANIFEST:
                os.link(file, folder / file.name)


def begin_quickly(path: Path, rank: int, manifest: dict[str, object]) -> Path:
    """Make the folder of a rank by itself: a rank that begins looks at all the others."""
    with tempfile.TemporaryDirectory(dir=path.parent) as held:
        folder = rank_folder(path, rank)
        begin(Path(held) / "run", rank, manifest).rename(folder)
    return folder


def viewed(path: Path, *questions: str) -> None:
    """Ask a viewer what its pages ask."""
    from backsight.viewer.library import Library
    from backsight.viewer.server import listing_of

    library = Library(path)
    if not questions:
        listing_of(library)
        return
    name, rank = library.names()[0], {}
    for question in questions:
        given = {"kind": "grad", **({"stat": "l2"} if question == "heatmap" else {"tensor": "layers.3.weight"}), **rank}
        answer = library.ask(name, question, given)
        if question == "about" and answer.get("rank") is not None:
            rank = {"rank": str(answer["rank"])}


def answer(question: str, path: Path) -> None:
    """Answer a question in this process, and print the seconds, those of the processor, and the most megabytes."""
    from backsight import _version  # noqa: F401  # what a user has imported by then

    start, worked = time.perf_counter(), time.process_time()
    exec(QUESTIONS[question], {"path": path, "open_run": open_run, "viewed": viewed})
    print(
        time.perf_counter() - start,
        time.process_time() - worked,
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    )


def measured(path: Path, only: str) -> None:
    table = simple_table("", "seconds", "CPU s", "MB", title=f"{path.name}: {len(open_run(path).ranks):,} ranks")
    for question in QUESTIONS:
        if only in question:
            command = [sys.executable, __file__, "--answer", question, "--keep", str(path)]
            try:
                told = subprocess.run(command, capture_output=True, text=True, timeout=600)
            except subprocess.TimeoutExpired:
                table.add_row(question, "> 600", "", "")
                continue
            failed = told.returncode != 0
            seconds, worked, megabytes = (np.nan, np.nan, np.nan) if failed else map(float, told.stdout.split())
            table.add_row(question, f"{seconds:.2f}", f"{worked:.2f}", f"{megabytes:,.0f}")
            print(f"  {question}: {seconds:.2f} s {told.stderr[-300:]}", flush=True)
    report(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ranks", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--keep", type=Path, help="make the run here, if it is not there yet, and keep it")
    parser.add_argument("--only", default="", help="a part of the names of the questions to ask")
    parser.add_argument("--answer", choices=QUESTIONS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.answer is not None:
        return answer(options.answer, options.keep)
    with tempfile.TemporaryDirectory(prefix="backsight-") as held:
        path = options.keep or Path(held) / "ranks"
        if not path.exists():
            make(path, options.ranks, options.steps)
        measured(path, options.only)


if __name__ == "__main__":
    main()
