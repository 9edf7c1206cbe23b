"""Programs that are run to be traced: two of them, or one twice, and again at the step where they part."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from backsight.launch.voice import of_several, say
from backsight.text import printable

if TYPE_CHECKING:
    from backsight.traces import Difference

Programs = tuple[Sequence[str], Sequence[str]]
Folders = tuple[Path, Path]


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
    """Run two programs one after the other, traced, and print where they diverge.

    Where the traced steps agree and a later one does not, both run again to trace that one.
    """
    from backsight.tables.difference import show

    with tempfile.TemporaryDirectory(prefix="backsight-") as folder:
        traces = _both_traced((a, b), Path(folder) / "first", steps, values)
        if traces is None:
            return 2
        found = _compared(traces)
        if found is None:
            return 2
        if found.untraced:
            found = _again((a, b), traces, found, Path(folder), values, twice=twice)
        if twice and found is not None:
            found = _with_hash_seed(found)
        return 2 if found is None else show(found, as_json=as_json, report=report, twice=twice)


def _watched(what: str) -> None:
    """Say how far it has come, where somebody looks on."""
    if sys.stderr is not None and sys.stderr.isatty():
        say(f"backsight: {what}")


_HASH_SEED = (
    "Python's hash seed is random, so a set of strings has another order in each run: if the two agree with "
    "PYTHONHASHSEED=0, sort what comes from sets"
)


def _with_hash_seed(found: Difference) -> Difference:
    """Note that the order of sets may be why a program receives or starts from something else when it runs again."""
    told = found.first is not None and found.first.code in ("BS504", "BS505")
    seeded = os.environ.get("PYTHONHASHSEED", "random") != "random"
    if not told or seeded or "random generator" in str(found.first):
        return found
    return replace(found, notes=(*found.notes, _HASH_SEED))


def _both_traced(programs: Programs, folder: Path, steps: Sequence[int], values: bool) -> Folders | None:
    """Run both, and return their traces; None if one left none."""
    folder.mkdir()
    traces = folder / "A", folder / "B"
    for name, words, trace in zip(("A", "B"), programs, traces, strict=True):
        say(f"backsight: running {name}: {printable(shlex.join(words))}")
        began = time.monotonic()
        status = _traced(name, words, trace, steps, values)
        _watched(f"{name} ended after {time.monotonic() - began:.0f} s")
        if status != 0:
            say(f"backsight: {name} ended with status {status}; what it did until then is compared")
        if not trace.is_dir():
            say(f"backsight: {name} left no trace: it did not import torch, or called no model and no optimizer")
            return None
    return traces


def _compared(traces: Folders) -> Difference | None:
    from backsight.tables.printing import complain
    from backsight.traces import TraceError, diff

    _watched("comparing what they computed")
    try:
        return diff(*traces)
    except TraceError as error:
        complain(error)
        return None


def _again(
    programs: Programs, traces: Folders, found: Difference, folder: Path, values: bool, *, twice: bool
) -> Difference | None:
    """Run both again to trace the steps at which they part, or what cannot be traced as it differs each time."""
    from backsight.traces import open_trace
    from backsight.traces.agreement import unlike

    parted = [each.step for each in found.untraced]
    steps = sorted({step for each in parted for step in (each - 1, each)})
    say(f"backsight: {found.agreement.agree(parted[0])}; they part at step {parted[0]}")  # type: ignore[union-attr]
    say(f"backsight: running both again, traced at {_listed(steps)}")
    again = _both_traced(programs, folder / "again", steps, values)
    if again is None:
        return found
    if not twice:  # of a program that differs from itself, no run reproduces another
        for name, words, first, second in zip("AB", programs, traces, again, strict=True):
            step = unlike(open_trace(first), open_trace(second), max(parted))
            if step is not None:
                return _unreproduced(name, words, step, folder, values)
    return _compared(again)


def _unreproduced(name: str, words: Sequence[str], step: int, folder: Path, values: bool) -> Difference | None:
    """Compare a program with itself, as it does not reproduce what it is to be compared for."""
    say(
        f"backsight: {name} is not reproducible: step {step} differs when it runs again, so nothing later can be "
        f"compared. What follows compares {name} with itself"
    )
    traces = _both_traced((words, words), folder / "itself", sorted({max(0, step - 1), step}), values)
    return None if traces is None else _compared(traces)


def _listed(steps: Sequence[int]) -> str:
    return f"steps {', '.join(map(str, steps))}"


def _traced(name: str, words: Sequence[str], trace: Path, steps: Sequence[int], values: bool) -> int:
    asked = [
        "run",
        "--quiet",
        "--trace",
        f"steps={','.join(map(str, steps))}",
        "--into",
        str(trace),
    ]
    command = [sys.executable, "-m", "backsight", *asked, *(["--values"] if values else []), *words]
    out = sys.stderr if sys.stderr is not None and hasattr(sys.stderr, "fileno") else subprocess.DEVNULL
    script = next((each for each in words if each != "-m"), "")
    return subprocess.call(command, stdout=out, env={**os.environ, of_several.NAME: f"{name} ({script})"})


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
