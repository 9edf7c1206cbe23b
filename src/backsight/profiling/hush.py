"""Keeps PyTorch's profiler from writing its own diary to stderr."""

from __future__ import annotations

import os

import torch

_LEVEL = "KINETO_LOG_LEVEL"
_SILENT = "6"  # above kineto's levels; PyTorch 2.13 tells every start and stop at 5, more than an error


def hush_kineto() -> None:
    """Keep kineto, which reads its level when the first profiler of a process is made, from writing to stderr.

    A level that the user has set stays; the environment is left as it was.
    """
    if _LEVEL in os.environ:
        return
    os.environ[_LEVEL] = _SILENT
    try:
        profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
        profiler.start()
        profiler.stop()
    finally:
        del os.environ[_LEVEL]
