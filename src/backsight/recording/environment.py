"""What a run is made in: versions, device, command line, commit; and which rank this process is."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from pathlib import Path

import torch

from backsight._version import __version__
from backsight.recording.job import began


def environment() -> dict[str, object]:
    """Return where and how this process runs, as plain data."""
    return {
        "backsight": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
        "threads": torch.get_num_threads(),
        "command": list(sys.orig_argv),
        "arguments": [str(each) for each in sys.argv[1:]],
        "seed": _seed(),
        "commit": _commit(),
    }


def rank_and_world() -> tuple[int, int]:
    """Return the number of this process and how many there are, as torch.distributed or torchrun say."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    try:
        rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    except (KeyError, ValueError):  # not started by torchrun
        return 0, 1
    return (rank, world) if 0 <= rank < world else (0, 1)


def new_run(name: str) -> Path:
    """Return a folder for a run that was given none: runs/2026-01-31-17-05-09-ResNet.

    Raises:
        ValueError: if this is one of several processes, and nothing tells all of them the same time.
    """
    when = moment()
    if when is None:
        raise ValueError("every process must get the same run")
    return Path("runs") / f"{when}-{name}"


def moment() -> str | None:
    """Return when this began, as a part of names; of several processes the same for all, None if nothing tells it."""
    seconds = began() if rank_and_world()[1] > 1 else time.time()
    return None if seconds is None else time.strftime("%Y-%m-%d-%H-%M-%S", time.localtime(seconds))


def _seed() -> int | None:
    """Return what the program has seeded PyTorch with; None if it has not."""
    seed = torch.initial_seed()
    return None if seed == torch.Generator().initial_seed() else seed


def _commit() -> str | None:
    """Return the commit of the working directory, if git knows one."""
    try:
        asked = subprocess.run(
            ["git", "rev-parse", "HEAD"],
            capture_output=True,
            text=True,
            timeout=2,
            check=True,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError):  # no git, or not in a repository
        return None
    return asked.stdout.strip() or None
