"""Run a program to its end, or for as long as it may take; what it has started ends with it."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Ended:
    """How a process ended: None for one that was stopped after its time."""

    status: int | None
    out: str
    err: str

    @property
    def how(self) -> str:
        """In words, for one that did not end well."""
        if self.status is None:
            return "did not end in time"
        if self.status < 0:
            return f"was killed by {signal.Signals(-self.status).name}"
        return f"ended with exit status {self.status}"


def run(command: Sequence[str], *, env: dict[str, str], within: Path, limit: float) -> Ended:
    """Run a command in a session of its own; whatever it leaves behind is killed, also when we are interrupted."""
    process = subprocess.Popen(
        command,
        cwd=within,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=limit)
        return Ended(process.returncode, out, err)
    except subprocess.TimeoutExpired:
        _kill(process)
        out, err = process.communicate()
        return Ended(None, out, err)
    finally:
        _kill(process)


def _kill(process: subprocess.Popen[str]) -> None:
    """Kill a process and those of its session that outlive it."""
    if os.name == "nt":
        process.kill()
        return
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):  # nobody is left
        pass
