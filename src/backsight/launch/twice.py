"""Programs that are run to be traced: two of them, or one twice."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from backsight.launch.voice import say
from backsight.text import printable


def run_twice(words: Sequence[str], steps: Sequence[int], *, values: bool = False, as_json: bool = False) -> int:
    """Run a program twice, traced, and print the first operation that differs; return 0 if there is none.

    What the programs print goes to stderr.
    """
    return run_both(list(words), list(words), steps, values=values, as_json=as_json, twice=True)


def run_both(
    a: Sequence[str],
    b: Sequence[str],
    steps: Sequence[int],
    *,
    values: bool = False,
    as_json: bool = False,
    report: str | None = None,
    twice: bool = False,
) -> int:
    """Run two programs one after the other, traced, and print where they diverge."""
    with tempfile.TemporaryDirectory(prefix="backsight-") as folder:
        traces = [Path(folder) / name for name in ("A", "B")]
        for name, words, trace in zip(("A", "B"), (a, b), traces, strict=True):
            say(f"backsight: running {name}: {printable(shlex.join(words))}")
            if (status := _traced(words, trace, steps, values)) != 0:
                say(f"backsight: {name} ended with status {status}; what it did until then is compared")
            if not trace.is_dir():
                say(f"backsight: {name} left no trace: it did not import torch, or called no model and no optimizer")
                return 2
        from backsight.tables.difference import show_difference

        return show_difference(str(traces[0]), str(traces[1]), as_json=as_json, report=report, twice=twice)


def _traced(words: Sequence[str], trace: Path, steps: Sequence[int], values: bool) -> int:
    asked = [
        "run",
        "--quiet",
        "--watch",
        "calls",
        "--trace",
        f"steps={','.join(map(str, steps))}",
        "--into",
        str(trace),
    ]
    command = [sys.executable, "-m", "backsight", *asked, *(["--values"] if values else []), *words]
    out = sys.stderr if sys.stderr is not None and hasattr(sys.stderr, "fileno") else subprocess.DEVNULL
    return subprocess.call(command, stdout=out, env={**os.environ})


def program_of(command: str) -> list[str]:
    """Return the words of a command without the python that begins it: the script or `-m` and module, and arguments.

    Raises:
        ValueError: if it is no command of python.
    """
    words = shlex.split(command)
    if words and Path(words[0]).name.startswith("python"):
        words = words[1:]
    elif not words or not words[0].endswith(".py"):
        raise ValueError(
            f"{command!r} is neither the folder of a trace nor a command: write 'python train.py', or 'train.py --lr 1'"
        )
    if not words or (words[0].startswith("-") and words[0] != "-m"):
        raise ValueError(f"{command!r} runs no script: options of python are not passed on; write 'python train.py'")
    return words
