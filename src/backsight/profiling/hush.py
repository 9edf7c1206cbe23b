"""Keeps PyTorch's profiler from speaking to the user of what we start it for."""

from __future__ import annotations

import os

import torch

from backsight.quiet import quietly

_LEVEL = "KINETO_LOG_LEVEL"
_SILENT = "6"  # above kineto's levels; PyTorch 2.13 tells every start and stop at 5, more than an error


class QuietProfiler(torch.profiler.profile):
    """PyTorch's profiler without its warnings: up to 2.12 the first of a process warns of cycles."""

    def prepare_trace(self) -> None:
        with quietly(UserWarning, module=r"torch\.profiler"):
            super().prepare_trace()


def hush_kineto() -> None:
    """Keep kineto, which reads its level when the first profiler of a process is made, from writing to stderr.

    A level that the user has set stays; the environment is left as it was.
    """
    if _LEVEL in os.environ:
        return
    os.environ[_LEVEL] = _SILENT
    try:
        profiler = QuietProfiler(activities=[torch.profiler.ProfilerActivity.CPU])
        profiler.start()
        profiler.stop()
    finally:
        del os.environ[_LEVEL]
