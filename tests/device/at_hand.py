"""The device that the tests of this folder run on, and what is asked of it.

`BACKSIGHT_DEVICE=cpu` makes a rehearsal: the very same tests on the CPU, where they show that they can be run.
"""

from __future__ import annotations

import os
import sys
import threading
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

ROOT = Path(__file__).parents[2]

DEVICE = os.environ.get("BACKSIGHT_DEVICE") or ("cuda" if torch.cuda.is_available() else "")
"""What tensors are made on; empty where there is nothing to try."""

REHEARSAL = DEVICE == "cpu"

SECONDS = 240 if REHEARSAL else 60
"""What a test may take. After three times as long all of the run ends: a kernel that hangs cannot be interrupted."""

only_there = pytest.mark.skipif(REHEARSAL, reason="a rehearsal on the CPU: NOT TRIED")
"""For what has no meaning on the CPU."""

needs_triton = pytest.mark.skipif(find_spec("triton") is None, reason="no Triton: ITS KERNEL IS NOT TRIED")

_WAITING = {f"aten::{name}" for name in ("_local_scalar_dense", "equal", "nonzero", "masked_select", "_unique2")}


class Waits:
    """Counts how often this thread waits for the device while it is entered.

    On CUDA PyTorch itself says when it does (`torch.cuda.set_sync_debug_mode`); what is called by name (an event, a
    stream, the device) is counted besides. On the CPU those operations are counted that would wait on a device.

        with Waits() as waits:
            step()
        assert waits.count == 0, waits.told
    """

    def __init__(self) -> None:
        self.told: list[str] = []
        self._inside: Any = None
        self._patch = pytest.MonkeyPatch()

    @property
    def count(self) -> int:
        return len(self.told)

    def __enter__(self) -> Waits:
        if REHEARSAL:
            self._inside = torch.autograd.profiler.profile()
            self._inside.__enter__()
            return self
        torch.cuda.synchronize()
        for kind, name in (
            (torch.cuda.Event, "synchronize"),
            (torch.cuda.Stream, "synchronize"),
            (torch.cuda, "synchronize"),
        ):
            self._patch.setattr(kind, name, self._counted(getattr(kind, name), name))
        self._inside = warnings.catch_warnings(record=True)
        self._warned = self._inside.__enter__()
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        return self

    def __exit__(self, *raised: Any) -> None:
        if not REHEARSAL:
            torch.cuda.set_sync_debug_mode("default")
        self._inside.__exit__(*raised)
        self._patch.undo()
        if REHEARSAL:
            self.told += [event.name for event in self._inside.function_events if event.name in _WAITING]
        else:
            self.told += [
                f"{w.filename}:{w.lineno}" for w in self._warned if "called a synchronizing" in str(w.message)
            ]

    def _counted(self, function: Any, name: str) -> Any:
        here = threading.get_ident()

        def counted(*args: Any, **kwargs: Any) -> Any:
            if threading.get_ident() == here:
                frame = sys._getframe(1)
                self.told.append(f"{name}, {frame.f_code.co_filename}:{frame.f_lineno}")
            return function(*args, **kwargs)

        return counted


def finished() -> None:
    """Wait for the device."""
    if DEVICE.startswith("cuda"):
        torch.cuda.synchronize()


def backend() -> str:
    """What `torch.compile` compiles with: Inductor needs a compiler for the CPU, and the rehearsal is not about it."""
    return "aot_eager" if REHEARSAL else "inductor"


def environment(**more: str) -> dict[str, str]:
    """The variables of a process of its own: it finds backsight where this one did."""
    src, path = str(ROOT / "src"), os.environ.get("PYTHONPATH")
    found = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (src, path))), "OMP_NUM_THREADS": "1", **more}
    return {name: value for name, value in found.items() if name not in ("COLUMNS", "RANK", "WORLD_SIZE")}
