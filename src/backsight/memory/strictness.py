"""Where a fake operator refuses what the real one takes."""

from __future__ import annotations

import types

import torch
from torch.utils._pytree import tree_map_only

from backsight.memory._torch import FAKE_DISPATCH, without_modes
from backsight.memory.tensors import tensors_of

_MOST = 2**28
"""Bytes of arguments with which an operator is tried for real."""


def stricter(error: BaseException) -> str | None:
    """Return the operator whose fake form raised an error that the real one does not raise.

    None if the real one does too, since then the program is wrong, or if its arguments are too large to try.
    """
    frame = _refused(error)
    if frame is None:
        return None
    func, args, kwargs = (frame.f_locals.get(name) for name in ("func", "args", "kwargs"))
    size = sum(each.numel() * each.element_size() for each in tensors_of((args, kwargs)))
    if not callable(func) or size > _MOST:
        return None
    with without_modes(), torch.no_grad():
        try:
            args, kwargs = tree_map_only(torch.Tensor, _real, (args, kwargs))
            func(*args, **(kwargs or {}))
        except Exception:
            return None
    return str(func)


def _real(fake: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(fake.size(), fake.stride(), dtype=fake.dtype).zero_()


def _refused(error: BaseException) -> types.FrameType | None:
    """Return the innermost frame in which the fake form of an operator was called, among those of an error."""
    trace, found = error.__traceback__, None
    while trace is not None:
        if trace.tb_frame.f_code is FAKE_DISPATCH:
            found = trace.tb_frame
        trace = trace.tb_next
    return found
