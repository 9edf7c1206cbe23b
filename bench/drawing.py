"""How long a picture takes, from the loss to the finished text, and how large it is: backsight and torchviz.

    python bench/drawing.py [--quick]

torchviz's side is the source text for Graphviz alone: what Graphviz then needs comes on top, and is far more.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from _graphs import Step, chain, gpt2, resnet, sampler
from _measure import Result, Side, interleaved, report, simple_table, verdict
from torchviz import make_dot

import backsight

SVG, HTML, DOT = "svg", "html", "make_dot"


@dataclass(frozen=True)
class Workload:
    """A graph to be drawn, and the most seconds and boxes that its picture may take."""

    name: str
    make: Callable[[], Step]
    seconds: float
    boxes: int
    rounds: int = 5


def formula() -> Step:
    """The first example of PyTorch's own tutorial."""
    x1, x2 = torch.tensor(2.0, requires_grad=True), torch.tensor(5.0, requires_grad=True)
    return lambda: torch.log(x1 * x2) * torch.sin(x2)


WORKLOADS = (
    Workload("log(x1·x2)·sin(x2)", formula, 0.1, 4),
    Workload("ResNet-18", resnet, 0.1, 30),
    Workload("GPT-2, 12 layers", gpt2, 0.1, 30),
    Workload("sampler of 50 steps", sampler, 0.5, 30),
    Workload("chain of 10,000", partial(chain, 10_000), 1.0, 10),
    Workload("chain of 100,000", partial(chain, 100_000), 5.0, 10, rounds=3),
)


def measured(work: Workload, rounds: int) -> dict[str, Result]:
    """Return how long each side takes."""
    step = work.make()
    sides = {
        SVG: Side(step, lambda loss: backsight.graph(loss).to_svg(), drawn),
        HTML: Side(step, lambda loss: backsight.graph(loss).to_html(), drawn),
        DOT: Side(step, lambda loss: make_dot(loss).source, drawn),
    }
    return interleaved(sides, rounds)


def drawn(text: str) -> str:
    """Return how large a picture is, and of how many boxes."""
    boxes = text.count('data-box="') or text.count("[label=")
    return f"{len(text.encode()) / 1000:,.0f} kB" + (f", {boxes:,} boxes" if boxes else "")


def boxes_in(result: Result) -> int:
    """Return how many boxes a result speaks of."""
    return int(result.note.split(", ")[1].split()[0]) if ", " in result.note else 0


def cell(result: Result) -> str:
    """Return a result as a table shows it."""
    return result.note if result.failed else f"{result.seconds * 1000:,.1f} ms, {result.note}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one round, without the longest chain")
    quick = parser.parse_args().quick
    torch.set_num_threads(1)
    table = simple_table("", "to_svg", "to_html", "make_dot (text)", title="From the loss to a picture, and its size")
    verdicts = []
    for work in WORKLOADS[:-1] if quick else WORKLOADS:
        results = measured(work, 1 if quick else work.rounds)
        table.add_row(work.name, *(cell(results[side]) for side in (SVG, HTML, DOT)))
        ours = results[SVG]
        good = not ours.failed and ours.seconds <= work.seconds and boxes_in(ours) <= work.boxes
        verdicts.append(verdict(good, f"{work.name}: under {work.seconds:g} s, at most {work.boxes} boxes"))
    report(table, *verdicts)


if __name__ == "__main__":
    main()
