"""How long after an autograd error its explanation is there, in a process with a heap of 500 MB of Python objects.

    python bench/explain.py [--quick] [--megabytes N] [--only PATTERN]

Every broken example runs in fresh interpreters, with and without a data set of small objects that the program holds in
a variable, in turn. What is timed is what `backsight run` does between the end of Python's traceback and its own text,
imports included.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from _measure import median, report, simple_table, verdict
from rich.console import Console
from rich.table import Table

LIMIT = 1.0  # seconds
EXAMPLES = Path(__file__).parents[1] / "examples" / "broken"

PROGRAM = """
import gc, json, resource, runpy, sys, time

path, megabytes = sys.argv[1], int(sys.argv[2])

def used():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize() / 1e6

import torch
start, dataset = used(), []
gc.disable()  # or most of the time goes into looking through what is being made
while used() - start < megabytes:
    number = len(dataset)
    dataset.extend(
        {"id": str(k), "text": f"sentence {k} " * 3, "tokens": list(range(k, k + 8)), "label": [k, None]}
        for k in range(number, number + 10_000)
    )
gc.enable()
objects = len(gc.get_objects())
import backsight
from backsight.launch.first_steps import FirstSteps

sys.argv = [path]
steps = FirstSteps()
try:
    runpy.run_path(path, init_globals={"dataset": dataset}, run_name="__main__")
except Exception as failed:
    error = failed
    begin, busy = time.perf_counter(), time.process_time()
    finding = backsight.explain(error)
    text = str(finding)
    seconds, busy = time.perf_counter() - begin, time.process_time() - busy
    print(json.dumps([finding.code, seconds, busy, objects]))
"""


def explained(path: Path, megabytes: int) -> tuple[str, float, float, int] | None:
    """Run an example in a fresh interpreter; None if it ends without an error."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(path), str(megabytes)],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith('["BS')]
    if not lines:
        return None
    code, seconds, busy, objects = json.loads(lines[-1])
    return code, seconds, busy, objects


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure how soon after an error its explanation is there.")
    parser.add_argument("--quick", action="store_true", help="one round instead of three")
    parser.add_argument("--megabytes", type=int, default=500, help="of small Python objects (500)")
    parser.add_argument("--only", metavar="PATTERN", default="[0-9]*.py", help="of the examples")
    options = parser.parse_args()
    rounds = 1 if options.quick else 3
    out: Table = simple_table(
        "example",
        "code",
        "small heap, s",
        f"{options.megabytes} MB, s",
        "of the processor",
        title="From the error to its explanation",
    )
    worst, objects = 0.0, 0
    with Console(stderr=True).status("explaining"):
        for path in sorted(EXAMPLES.glob(options.only)):
            times: dict[int, list[float]] = {0: [], options.megabytes: []}
            code, busy = "", list[float]()
            for _ in range(rounds):
                for megabytes, taken in times.items():
                    found = explained(path, megabytes)
                    if found is not None:
                        code, seconds, processor, many = found
                        taken.append(seconds)
                        objects = max(objects, many)
                        if megabytes:
                            busy.append(processor)
            if not code:
                continue
            small, large = (median(taken) for taken in times.values())
            worst = max(worst, large)
            out.add_row(path.stem, code, f"{small:.2f}", f"{large:.2f}", f"{median(busy):.2f}")
    report(
        out,
        f"{objects:,} objects in the larger heap; median of {rounds} fresh interpreters each",
        verdict(worst < LIMIT, f"at worst {worst:.2f} s (under {LIMIT:.0f})"),
    )


if __name__ == "__main__":
    main()
