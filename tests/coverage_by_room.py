"""How much of each room of the ground and first floors its own tests run: `make coverage`.

    python tests/coverage_by_room.py [ROOM ...]

Lines that tests of other rooms run do not count; those of processes that tests start do. Needs Python 3.12 or later,
whose `sys.monitoring` has room for coverage.py beside the watches of `backsight.tracing`: before, both want
`sys.settrace`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROOMS = (
    "tape", "naming", "source", "runs", "snapshot", "findings", "tracing", "recording", "gradient_release", "profiling",
    "drawing", "walkthrough", "verification",
)  # fmt: skip
ELSEWHERE = {"findings": ("tests/diagnosis/test_printing.py",)}
GOAL = 90  # percent


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure how much of each room its own tests run.")
    parser.add_argument("rooms", nargs="*", metavar="ROOM", help=f"of {', '.join(ROOMS)}; all if none is given")
    rooms = parser.parse_args().rooms or ROOMS
    if sys.version_info < (3, 12):
        sys.exit("coverage needs Python 3.12 or later: make coverage PYTHON=python3.13 VENV=.venv-3.13")
    below = [room for room in rooms if _measured(room) < GOAL]
    if below:
        sys.exit(f"under {GOAL} %: {', '.join(below)}")


def _measured(room: str) -> float:
    """Run the tests of a room, print the lines that they left out, and return the percentage of the others."""
    tests = ELSEWHERE.get(room, (f"tests/{room}",))
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "COVERAGE_FILE": f"{folder}/data"}
        ran = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "--cov", "--cov-report=", *tests],
            cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        report = [sys.executable, "-m", "coverage", "report", f"--include=*/backsight/{room}/*"]
        said = subprocess.run(report, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True).stdout
        total = subprocess.run(
            [*report, "--format=total", "--precision=1"], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True
        ).stdout
    print(f"{room}: {total.strip()} %, {ran.stdout.splitlines()[-1]}\n{said}", flush=True)
    return float(total)


if __name__ == "__main__":
    main()
