"""How much memory the process holds; asked now and then, by the thread that writes."""

from __future__ import annotations

import os
import sys

import torch

_STATM = "/proc/self/statm"
"""Where Linux says it, in pages."""


def memory_held() -> dict[str, int]:
    """Return bytes: `memory`, what is resident of the process, and `device_memory_peak`, the most that tensors held.

    What the system does not tell is left out; no device is waited for.
    """
    found: dict[str, int] = {}
    if sys.platform == "linux":
        try:
            with open(_STATM, encoding="ascii") as file:
                found["memory"] = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except (OSError, ValueError, IndexError):  # no /proc in some containers
            pass
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]  # without annotations
        found["device_memory_peak"] = torch.cuda.max_memory_allocated()
    return found
