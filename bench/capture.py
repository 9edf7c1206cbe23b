"""How long capturing a graph takes: backsight, torchviz.make_dot and torchID's walk on the same graphs, in turn.

    python bench/capture.py [--quick] [--limit SECONDS]

Unless said otherwise each measurement is a first walk: of a graph made just before, that Python has never touched.
"""

from __future__ import annotations

import argparse
import gc
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from _graphs import Step, chain, encoder, gpt2, linear_regression, resnet
from _measure import Result, Side, interleaved, report, simple_table, verdict
from _torchid import EveryPath, every_path
from rich.console import Console
from rich.table import Table
from torchviz import make_dot

import backsight
from backsight.compat.torchid import find_leaves
from backsight.tape import capture

BARE, AGAIN, SAVED, NAMED = "bare", "bare again", "+ saved", "+ names"
LEAVES, TORCHID, DOT = "find_leaves", "torchID", "make_dot"
OWN, OTHERS = (BARE, AGAIN, SAVED, NAMED), (DOT, LEAVES, TORCHID)
MILLION = "chain of 1,000,000"
ENCODER = "encoder, 12 layers"


@dataclass(frozen=True)
class Workload:
    """A graph to be made again and again, and what is measured on it."""

    name: str
    make: Callable[[], Step]
    rounds: int = 5
    skipped: tuple[str, ...] = ()


@dataclass(frozen=True)
class Row:
    """The size of one graph and how long each side took."""

    name: str
    nodes: int
    leaves: int
    results: dict[str, Result]


WORKLOADS = (
    Workload("linear regression", linear_regression),
    *(Workload(f"encoder, {n} layers", partial(encoder, n)) for n in (2, 4, 6, 12)),
    Workload("ResNet-18", resnet),
    Workload("GPT-2, 12 layers", gpt2),
    Workload("chain of 100,000", partial(chain, 100_000), rounds=3),
    Workload(MILLION, partial(chain, 1_000_000), rounds=3, skipped=(AGAIN, SAVED, NAMED, DOT, LEAVES, TORCHID)),
)


def measured(work: Workload, rounds: int, limit: float) -> Row:
    step = work.make()
    graph = capture(step(), details=False)
    bare = partial(capture, details=False)
    sides = {
        BARE: Side(step, bare),
        AGAIN: Side(lambda: _walked(step()), bare),
        SAVED: Side(step, capture),
        NAMED: Side(step, backsight.graph),
        DOT: Side(step, make_dot),
        LEAVES: Side(step, lambda loss: find_leaves(loss.grad_fn)),
        TORCHID: Side(step, partial(every_path, limit=limit), lambda walk: _leaves_but(len(graph.leaves), walk)),
    }
    wanted = {name: side for name, side in sides.items() if name not in work.skipped}
    gc.collect()
    gc.freeze()  # a collection precedes every run: it need not go through all modules again and again
    results = interleaved(wanted, rounds)
    gc.unfreeze()
    return Row(work.name, len(graph), len(graph.leaves), results)


def _walked(loss: torch.Tensor) -> torch.Tensor:
    capture(loss, details=False)
    return loss


def _leaves_but(expected: int, walk: EveryPath) -> str:
    found = len(walk.leaves)
    return "" if found == expected else f"{found:,} leaves"


def tables(rows: list[Row]) -> list[Table]:
    """Two tables of the same runs: what backsight captures, and how it compares with others."""
    own = simple_table("graph", "nodes", *OWN, title="Capturing a graph: median milliseconds of first walks")
    others = simple_table("graph", "leaves", *OTHERS, title="Other tools, in the same run")
    for row in rows:
        own.add_row(row.name, f"{row.nodes:,}", *(_cell(row.results.get(side)) for side in OWN))
        others.add_row(row.name, f"{row.leaves:,}", *(_cell(row.results.get(side)) for side in OTHERS))
    return [own, others]


def _cell(result: Result | None) -> str:
    if result is None:
        return "not run"
    if result.failed:
        return result.note
    milliseconds = f"{result.seconds * 1e3:,.{0 if result.seconds > 0.1 else 2}f}"
    return f"{milliseconds}, {result.note}" if result.note else milliseconds


def verdicts(rows: list[Row]) -> list[str]:
    """Compare with the figures that backsight promises."""
    by_name = {row.name: row for row in rows}
    long, deep = by_name[MILLION], by_name[ENCODER].results
    speed = long.nodes / long.results[BARE].seconds
    return [
        verdict(speed >= 500_000, f"first walk of a 1e6 chain: {speed:,.0f} nodes/s (at least 500,000)"),
        verdict(deep[BARE].seconds < 0.005, f"12-layer encoder, bare: {deep[BARE].seconds * 1e3:.1f} ms (under 5)"),
        verdict(
            deep[NAMED].seconds < 0.040,
            f"12-layer encoder, saved states and names: {deep[NAMED].seconds * 1e3:.1f} ms (under 40)",
        ),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure how long capturing a graph takes.")
    parser.add_argument("--quick", action="store_true", help="fewer rounds, and torchID's walk gives up sooner")
    parser.add_argument("--limit", type=float, help="seconds after which torchID's walk gives up (40; quick: 3)")
    options = parser.parse_args()
    limit = options.limit or (3 if options.quick else 40)
    torch.manual_seed(0)
    torch.set_num_threads(1)
    rows = []
    with Console(stderr=True).status("measuring") as status:
        for work in reversed(WORKLOADS):  # the largest first, before the others have fragmented the heap
            status.update(work.name)
            rows.insert(0, measured(work, min(work.rounds, 3) if options.quick else work.rounds, limit))
    report(*tables(rows), LEGEND, *verdicts(rows))


LEGEND = f"""\
{BARE}        capture(loss, details=False): nodes, edges and leaves
{AGAIN}  the same, of a graph that was walked before
{SAVED}     capture(loss): also shapes and the state of every saved tensor
{NAMED}     backsight.graph(loss): also names, modules and optimizers
{DOT}    torchviz's, DOT text only; RecursionError is Python's limit of depth
{TORCHID}     its find_leaves, which walks every path; how many leaves it returned
            is given where that is not each of the graph's once
{LEAVES} backsight.compat.torchid.find_leaves
"""


if __name__ == "__main__":
    main()
