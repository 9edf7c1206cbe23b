"""Which job this process belongs to: what tells the ranks of one start from those of another."""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping
from pathlib import Path

from backsight.recording._torch import agreed


def job(around: Mapping[str, str] = os.environ) -> str | None:
    """Return a name that all ranks of a start have in common, and no other start; None if nothing tells.

    Where the environment could be that of several starts, the ranks of the process group agree on a name, if there is
    one. What they cannot tell is the second attempt of `torchrun --max-restarts` over several machines from the first.

    ```python
    job({"SLURM_JOB_ID": "4711", "SLURM_STEP_ID": "0", "SLURM_PROCID": "3"})     # "slurm 4711.0"
    ```
    """
    if (logs := _logs(around)) is not None:
        return f"torchrun {logs.parent.name}/{logs.name}"
    told = around.get
    slurm, named = told("SLURM_JOB_ID") and told("SLURM_PROCID"), []
    if slurm:
        again = f", start {told('SLURM_RESTART_COUNT')}" if told("SLURM_RESTART_COUNT") else ""
        named.append(f"slurm {told('SLURM_JOB_ID')}.{told('SLURM_STEP_ID', '0')}{again}")
    if (name := told("TORCHELASTIC_RUN_ID", "none")) != "none":
        named.append(f"torchrun {name}")
    if not slurm and told("MASTER_ADDR") and told("MASTER_PORT"):  # the next job may have the same
        named.append(f"{told('MASTER_ADDR')}:{told('MASTER_PORT')}")
    if not slurm and (start := agreed(uuid.uuid4().hex[:8])) is not None:
        named.append(f"start {start}")
    return ", ".join(named) or None


def began(around: Mapping[str, str] = os.environ) -> float | None:
    """Return when the job began, in seconds since 1970, the same for all ranks; None if nothing tells."""
    if job(around) is None:
        return None
    if (logs := _logs(around)) is not None:
        try:
            return logs.stat().st_mtime  # torchrun makes what is in it before it starts any rank
        except OSError:
            return None
    told = around.get("SLURM_JOB_START_TIME", "")
    return float(told) if told.isdecimal() else None


def _logs(around: Mapping[str, str]) -> Path | None:
    """Return the folder of logs that the ranks of an attempt share, if torchrun runs on one machine.

    A plain `torchrun` calls every job "none", but makes a folder anew for each: .../none_x1y2z3/attempt_0, and in it
    RANK/error.json (torch/distributed/elastic/multiprocessing/api.py).
    """
    attempt = Path(around.get("TORCHELASTIC_ERROR_FILE", "")).parent.parent
    alone = around.get("LOCAL_WORLD_SIZE") == around.get("WORLD_SIZE") is not None
    return attempt if alone and attempt.name.startswith("attempt_") else None
