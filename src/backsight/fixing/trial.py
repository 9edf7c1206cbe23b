"""One run of the program as some edits have it, and what came of it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from backsight.launch.overlay import EDITED
from backsight.source.edits import Alternative, from_data

_ERROR = re.compile(r"^(?:\w+\.)*\w*(?:Error|Exception|Exit|Interrupt|Warning|Stop\w*)\b.*", re.MULTILINE)
"""How Python's own traceback tells an error, in its last lines."""


@dataclass(frozen=True)
class Fault:
    """What backsight said of a run, in short."""

    code: str
    severity: str
    title: str
    at: str
    statement: str
    fix: str
    edits: tuple[Alternative, ...]
    explains: bool
    """Whether it explains an error, or a warning, and was not found in a training that goes on."""

    def is_like(self, other: Fault) -> bool:
        """Whether it is the same fault; lines may have moved."""
        return (self.code, self.title, self.statement) == (other.code, other.title, other.statement)


Held = tuple[int, int]
"""A parameter, by the number of its optimizer and its own number in that."""


_STOPPING = ("BS102", "BS115")
_CONSTANT = ("BS114", "BS115", "BS121", "BS141", "BS151")


@dataclass(frozen=True)
class Outcome:
    """How a run ended.

    status: its exit status; None where its time was over.
    faults: what backsight said of it, but of errors that the program caught.
    steps: how many optimizer steps there were, if that is known.
    unwatched: whether its error was explained without a watch, which had looked at the first steps alone.
    moved: which parameters the steps of their optimizer have moved by a gradient.
    still: which trainable ones they have not, each with its name, if that is known.
    error: the last line of a traceback that it has printed; empty if that was shown.
    """

    status: int | None
    faults: tuple[Fault, ...]
    steps: int | None
    error: str
    seconds: float
    unwatched: bool = False
    moved: frozenset[Held] = frozenset()
    still: Mapping[Held, str] = field(default_factory=dict)

    @property
    def failed(self) -> bool:
        return self.status not in (0, None)

    @property
    def is_clean(self) -> bool:
        return not self.failed and not self.silent

    @property
    def stopping(self) -> tuple[Fault, ...]:
        """What was found that keeps gradients from parameters of an optimizer, if some did not move."""
        return tuple(each for each in self.silent if each.code in _STOPPING and self.still)

    @property
    def trains_nothing(self) -> bool:
        """Whether it ran, and an optimizer of it trains none of what it holds, as far as that is known."""
        idle = bool(self.still) and not self.moved
        return not self.failed and (idle or any(each.code == "BS115" for each in self.silent))

    @property
    def is_constant(self) -> bool:
        """Whether what was found says that a loss is constant, or that its gradient vanishes."""
        return any(each.code in _CONSTANT for each in self.silent)

    @property
    def failure(self) -> Fault | None:
        """What explains the error that ended it: nothing is explained after that."""
        explained = [each for each in self.faults if each.explains]
        return explained[-1] if self.failed and explained else None

    @property
    def silent(self) -> tuple[Fault, ...]:
        """What else was found; notes are no faults."""
        return tuple(each for each in self.faults if each is not self.failure and each.severity != "note")


def run(
    words: Sequence[str], texts: Mapping[str, str], seconds: float | None, *, shown: bool = False, closely: bool = False
) -> Outcome:
    """Run a program under backsight with these texts for some of its files.

    Args:
        words: the script and its arguments, or `-m`, a module and its arguments.
        texts: the edited files by their absolute paths.
        seconds: how long it may take; it is ended after that. None: as long as it takes.
        shown: whether what it prints is shown, on stderr.
        closely: whether all of it is watched, not its first steps alone.
    """
    with tempfile.TemporaryDirectory(prefix="backsight-") as folder:
        said, edited = Path(folder, "said.jsonl"), Path(folder, "edited.json")
        edited.write_text(json.dumps(dict(texts)), encoding="utf-8")
        options = ["--json-to", str(said), *(("--watch", "exact") if closely else ())]
        command = [sys.executable, "-m", "backsight", "run", *options, *words]
        environment = {**os.environ, EDITED: str(edited)}
        began = time.monotonic()
        status, printed = (
            _shown(command, environment) if shown else _hidden(command, environment, Path(folder, "printed"), seconds)
        )
        took = time.monotonic() - began
        errors = _ERROR.findall(printed)
        faults, told = _read(said)
        error = errors[-1].strip() if errors else ""
        unwatched = told.get("unwatched", False)
        held = told.get("held", ())
        moved = frozenset((number, k) for number, k, has, _ in held if has)
        still = {(number, k): name for number, k, has, name in held if not has}
        return Outcome(status, faults, told.get("steps"), error, took, unwatched, moved, still)


def _shown(command: Sequence[str], environment: Mapping[str, str]) -> tuple[int, str]:
    return subprocess.call(command, stdout=_stderr(), env=environment), ""


def _hidden(
    command: Sequence[str], environment: Mapping[str, str], printed: Path, seconds: float | None
) -> tuple[int | None, str]:
    """Run a command; return its status, None if it had to be ended, and what it has printed."""
    with printed.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env=environment, **_apart())
        status = _ended(process, seconds)
    return status, printed.read_text(encoding="utf-8", errors="replace")


def _stderr() -> Any:
    return sys.stderr if sys.stderr is not None and hasattr(sys.stderr, "fileno") else subprocess.DEVNULL


def _apart() -> dict[str, Any]:
    """A group of its own for a run and what it starts, so that all of it can be ended."""
    return {"stdin": subprocess.DEVNULL} | ({} if sys.platform == "win32" else {"start_new_session": True})


def _ended(process: subprocess.Popen[bytes], seconds: float | None) -> int | None:
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        _end(process, signal.SIGINT)  # what is found until then is told as the program ends
        try:
            process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            pass
        return None
    finally:
        _end(process, None)


_PATIENCE = 10.0
"""Seconds that a run has to end in once its time is over."""


def _end(process: subprocess.Popen[bytes], number: signal.Signals | None) -> None:
    if process.poll() is not None and number is not None:
        return
    try:
        if sys.platform == "win32":
            process.kill()
        elif number is not None:
            process.send_signal(number)
        else:
            os.killpg(process.pid, signal.SIGKILL)  # the run itself has ended, or will not; and what it has left behind
    except (ProcessLookupError, PermissionError):
        pass
    if number is None:
        process.wait()


def _read(file: Path) -> tuple[tuple[Fault, ...], dict[str, Any]]:
    """What was found, and all that its messages say beside that."""
    faults, told = [], dict[str, Any]()
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    for line in map(json.loads, lines):
        if line["kind"] == "message":
            told |= line
        elif not line["caught"]:
            faults.append(_fault(line))
    return tuple(faults), told


def _fault(line: Mapping[str, Any]) -> Fault:
    source = line["source"] or {}
    there = (source.get("file"), source.get("line"))
    statement = next(
        (e["code"] for e in line["evidence"] if (e.get("file"), e.get("line")) == there and "code" in e), ""
    )
    return Fault(
        line["code"],
        line["severity"],
        line["title"],
        source.get("text") or "",
        statement,
        line["fix"],
        tuple(tuple(map(from_data, each)) for each in line.get("edits", ())),
        line["kind"] == "explanation",
    )
