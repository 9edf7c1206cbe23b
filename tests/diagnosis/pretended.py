"""Programs whose tensors on `meta` stand for those of a GPU: one operation on both devices fails as it does there."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from failures import failing
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import backsight as bs
from backsight.diagnosis.errors.devices import placed

_COPIES = ("copy", "lift", "detach", "_local_scalar")


class Mixed(TorchDispatchMode):
    """Refuses an operation on tensors of several devices with the message that a GPU's kernels give."""

    def __init__(self, message: str, *refused: str) -> None:
        super().__init__()
        self.message, self.refused = message, refused

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(name in str(func) for name in self.refused):
            raise RuntimeError(self.message)
        given = [each for each in tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)]
        drawn = (kwargs or {}).get("generator") is not None and torch.device(kwargs["device"]).type == "meta"
        if drawn or (len({each.device for each in given}) > 1 and not any(name in str(func) for name in _COPIES)):
            raise RuntimeError(self.message)
        return func(*args, **(kwargs or {}))


def on_a_gpu(
    monkeypatch: pytest.MonkeyPatch, source: str, message: str, devices: dict[str, str] | None = None
) -> bs.Finding:
    """Explain a program that fails with this message; its `meta` tensors are said to be on the first GPU."""
    real, stands_for = placed.device_of, devices or {"meta": "cuda:0"}
    monkeypatch.setattr(
        placed, "device_of", lambda tensor: torch.device(stands_for.get(real(tensor).type, real(tensor).type))
    )
    with Mixed(message):
        error = failing(source)
    without_kernels(error)
    error.args = (message,)
    return bs.explain(error)


def while_capturing(source: str, *operations: str) -> bs.Finding:
    """Explain a program that reads a value, or runs one of the operations, where a graph is captured."""
    with Mixed("CUDA error: operation not permitted when stream is capturing", "_local_scalar", *operations):
        error = failing(source)
    assert error.__context__ is not None
    without_kernels(error.__context__)
    return bs.explain(error)


def refusing(source: str, operation: str, message: str) -> bs.Finding:
    """Explain a program one of whose operations fails with this message."""
    with Mixed(message, operation):
        error = failing(source)
    without_kernels(error)
    return bs.explain(error)


def without_kernels(error: BaseException) -> None:
    """Take the frame of the mode out of a traceback: a kernel has none."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        if trace.tb_next.tb_frame.f_code is Mixed.__torch_dispatch__.__code__:
            trace.tb_next = None
        else:
            trace = trace.tb_next
