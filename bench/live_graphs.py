"""How long `backsight.graphs()` takes in large processes.

    python bench/live_graphs.py [--quick]

Heaps of 500 MB: of Python objects, of tensors, and of graphs that a list keeps. One thread, and time of the processor,
as what else runs on the machine would show.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable
from typing import Any

import torch
from _measure import median, report, simple_table, verdict
from torch import nn

import backsight as bs

MB = 2**20


def network() -> nn.Sequential:
    return nn.Sequential(*(layer for _ in range(10) for layer in (nn.Linear(64, 64), nn.ReLU())))


def kept(number: int, batch: int) -> list[torch.Tensor]:
    model = network()
    return [model(torch.randn(batch, 64)).sum() for _ in range(number)]


def heaps() -> dict[str, Callable[[], Any]]:
    """Makers of what is in memory, each with a list of thirty losses beside it."""
    return {
        "small": lambda: None,
        "500 MB of tensors": lambda: [torch.zeros(MB // 4) for _ in range(500)],
        "500 MB of Python objects": lambda: [{"id": n, "text": str(n), "x": [n, n + 1]} for n in range(1_050_000)],
        "500 MB of graphs, large batches": lambda: kept(700, 256),
        "500 MB of graphs, small batches": lambda: kept(5000, 8),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    rounds = 2 if parser.parse_args().quick else 7
    torch.set_num_threads(1)
    bs.graphs()  # what is imported at the first call
    table = simple_table("heap", "objects", "graphs", "operations", "ms", title="backsight.graphs()")
    worst = 0.0
    for name, make in heaps().items():
        heap, history = make(), kept(30, 8)
        times = []
        for _ in range(rounds):
            start = time.process_time()
            live = bs.graphs()
            times.append(time.process_time() - start)
        seconds = median(times)
        worst = max(worst, seconds)
        named = all(graph.names for graph in live)
        table.add_row(
            name,
            f"{len(gc.get_objects()):,}",
            f"{len(live):,}",
            f"{live.nodes:,}",
            f"{seconds * 1e3:.0f}{'' if named else ' ?'}",
        )
        del heap, history, live
        gc.collect()
    report(table, verdict(worst < 1, "a heap of 500 MB within 1 s, every graph with the variable that holds it"))


if __name__ == "__main__":
    main()
