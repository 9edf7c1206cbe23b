"""How long a picture takes, from the loss to the finished file, and how large it is: backsight and its peers.

    pip install torchviz torchview torchlens torchvista     # those that are not there are left out
    python bench/drawing.py [--quick] [--limit 60]

torchviz, like backsight, is given a loss. The others run the module themselves, which is timed with them. torchvista
writes a page that is laid out in the browser, as `to_html` does; the rest need Graphviz's dot, or only write its input.
Each peer works in a process of its own: some change PyTorch, and long graphs that they have walked crash when freed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import astuple, dataclass
from functools import partial

import torch
from _drawers import Program, by_backsight, chain, formula, gpt2, installed, resnet, sampler
from _measure import Result, Side, interleaved, report, simple_table, verdict

SVG, HTML = "to_svg", "to_html"
"""What backsight is asked for."""


@dataclass(frozen=True)
class Workload:
    """A program to be drawn, and the most seconds and boxes that its picture may take."""

    name: str
    make: Callable[[], Program]
    seconds: float
    boxes: int
    rounds: int = 5
    page: float = 100.0
    """Kilobytes that the page may have."""


WORKLOADS = (
    Workload("log(x1·x2)·sin(x2)", formula, 0.1, 4),
    Workload("ResNet-18", resnet, 0.1, 30),
    Workload("GPT-2, 12 layers", gpt2, 0.1, 30, page=60.0),
    Workload("sampler of 50 steps", sampler, 0.5, 20),
    Workload("chain of 10,000", partial(chain, 10_000), 1.0, 10),
    Workload("chain of 100,000", partial(chain, 100_000), 5.0, 10, rounds=3),
)


def measured(work: Workload, rounds: int, limit: int) -> dict[str, Result]:
    """Return how long each side takes."""
    program = work.make()
    sides = {form: Side(partial(_loss, program), by_backsight(form), drawn) for form in (SVG, HTML)}
    return interleaved(sides, rounds) | {peer: apart(peer, work, rounds, limit) for peer in installed()}


def _loss(program: Program) -> torch.Tensor:
    model, inputs = program
    return model(*inputs)


def apart(peer: str, work: Workload, rounds: int, limit: int) -> Result:
    """Return how long a peer takes in a process of its own, which may live for `limit` seconds."""
    command = [sys.executable, __file__, "--peer", peer, work.name, str(rounds)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
    )
    try:
        said, _ = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # also the programs which it has started
        process.communicate()
        return Result(limit, f"over {limit} s", failed=True)
    if "RESULT " not in said:
        code = process.returncode
        return Result(0, signal.Signals(-code).name if code < 0 else f"exit status {code}", failed=True)
    return Result(*json.loads(said.rpartition("RESULT ")[2]))


def be_peer(peer: str, name: str, rounds: str) -> None:
    """Draw with one peer, and print the result."""
    program = next(work.make for work in WORKLOADS if work.name == name)()
    side = Side(partial(_loss, program), partial(installed()[peer], program), drawn)
    print("RESULT", json.dumps(astuple(interleaved({peer: side}, int(rounds))[peer])), flush=True)
    os._exit(0)  # freeing a long graph that a peer has walked may crash


def drawn(text: str) -> str:
    """Return how large a picture is, and of how many boxes."""
    boxes = len(re.findall(r'data-box="|class="node"|^\t\S+ \[label=', text, re.M))
    return f"{len(text.encode()) / 1000:,.0f} kB" + (f", {boxes:,}" if boxes else "")


def boxes_in(result: Result) -> int:
    """Return how many boxes a result speaks of."""
    return int(result.note.split(", ")[1].replace(",", "")) if ", " in result.note else 0


def cell(result: Result) -> str:
    """Return a result as a table shows it."""
    return result.note if result.failed else f"{_seconds(result.seconds)}\n{result.note}"


def _seconds(seconds: float) -> str:
    return f"{seconds * 1000:,.3g} ms" if seconds < 1 else f"{seconds:.1f} s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one round, without the longest chain")
    parser.add_argument("--limit", type=int, default=60, metavar="SECONDS", help="most that one picture may take")
    parser.add_argument("--peer", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.peer:
        be_peer(*options.peer)
    sides = (SVG, HTML, *installed())
    table = simple_table("", *sides, title="From the loss to a picture: time, size, boxes")
    verdicts = []
    by_backsight(HTML)(_loss(formula()))  # what is imported with the first picture
    for work in WORKLOADS[:-1] if options.quick else WORKLOADS:
        results = measured(work, 1 if options.quick else work.rounds, options.limit)
        table.add_row(work.name, *(cell(results[side]) for side in sides))
        ours, page = results[SVG], results[HTML]
        small = not page.failed and float(page.note.split()[0]) <= work.page
        good = not ours.failed and ours.seconds <= work.seconds and boxes_in(ours) <= work.boxes and small
        limits = f"under {work.seconds:g} s, at most {work.boxes} boxes, page under {work.page:g} kB"
        verdicts.append(verdict(good, f"{work.name}: {limits}"))
    report(table, *verdicts)


if __name__ == "__main__":
    main()
