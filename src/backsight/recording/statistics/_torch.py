"""Every part of torch below its public face that this room touches, and why.

- `torch._C.DisableTorchFunction`: keeps a user's `__torch_function__` and TorchFunctionModes out of our reads.
- `torch._C._DisableTorchDispatch`: the same for TorchDispatchModes, such as a FLOP counter that is to count the user's
  operations and not ours.
- `torch._C._is_torch_function_mode_enabled`: whether a TorchFunctionMode would see what we ask a tensor.
- `Tensor.__dlpack_c_exchange_api__`: DLPack's table of C functions, by which a tensor tells where it lies (2.10 on).
- `torch._C._dispatch_keys`: tells a tensor whose class answers for its operations itself (`__torch_dispatch__`): its
  memory, if it has any, is not what it stands for.
- `Tensor._is_zerotensor`: zeros that autograd made without memory.
- `torch._C._cuda_getCurrentRawStream`: the current stream of a device, forty times faster than by its public name.
- `torch._mkldnn`: the layout of `to_mkldnn()`, which has no public name.
- `torch.distributed._functional_collectives.AsyncCollectiveTensor`: a local shard that is still on its way.
- `cudaThreadExchangeStreamCaptureMode` of the CUDA runtime that PyTorch has loaded: see `beside_captures`.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from operator import methodcaller
from typing import Any

import torch

from backsight.surface import take

without_overrides: Any = take("torch._C.DisableTorchFunction", "tensor subclasses", without=nullcontext)
function_mode: Any = take("torch._C._is_torch_function_mode_enabled", "modes beside a recording", without=lambda: False)
without_modes: Any = take("torch._C._DisableTorchDispatch", "modes beside a recording", without=nullcontext)
MKLDNN: Any = take("torch._mkldnn", "recorded layouts", without=None)


_stream: Any = (
    take("torch._C._cuda_getCurrentRawStream", "recorded layouts", without=None) if torch.version.cuda else None
)


def stream_of(device: torch.device) -> int:
    """Which stream of a device this thread launches in; 0 where there are none."""
    if device.type != "cuda":
        return 0
    return int(torch.cuda.current_stream(device).cuda_stream if _stream is None else _stream(device.index))


def local(tensor: torch.Tensor) -> torch.Tensor:
    """What this process holds of a DTensor; any other tensor as it is. Whoever has made one has imported its module."""
    for module, name, method in (
        ("torch.distributed.tensor", "DTensor", "to_local"),
        ("torch.distributed._functional_collectives", "AsyncCollectiveTensor", "wait"),
    ):
        kind: Any = getattr(sys.modules.get(module), name, None)
        if kind is not None and issubclass(type(tensor), kind):
            tensor = getattr(kind, method)(tensor)
    return tensor


_keys: Any = take("torch._C._dispatch_keys", "recorded layouts", without=None)
_python: Any = take("torch._C.DispatchKey.Python", "recorded layouts", without=None)


def answers_itself(tensor: torch.Tensor) -> bool:
    """Whether the class of this tensor has a `__torch_dispatch__` of its own."""
    if _keys is None or _python is None:
        return type(tensor) not in (torch.Tensor, torch.nn.Parameter)
    return bool(_keys(tensor).has(_python))


without_memory: Callable[[torch.Tensor], bool] = take(
    "torch.Tensor._is_zerotensor",
    "recorded layouts",
    without=lambda _: False,
    read=lambda _: methodcaller("_is_zerotensor"),
)
"""Whether the tensor is zeros that were never written anywhere."""


_RELAXED = 2  # cudaStreamCaptureModeRelaxed


@contextmanager
def beside_captures() -> Iterator[None]:
    """Let this thread wait for an event while another one captures a CUDA graph.

    CUDA takes such a wait, of whatever thread, for a mistake of the one that captures, and ends the capture, unless the
    thread that waits has said that it knows what it does. PyTorch has no name for that.
    """
    exchange, mode = _exchange_capture_mode(), ctypes.c_int(_RELAXED)
    if exchange is not None:
        exchange(ctypes.byref(mode))  # and `mode` is what it was before
    try:
        yield
    finally:
        if exchange is not None:
            exchange(ctypes.byref(mode))


@cache
def _exchange_capture_mode() -> Any:
    major = str(torch.version.cuda or "").partition(".")[0]
    try:
        return ctypes.CDLL(f"libcudart.so.{major}").cudaThreadExchangeStreamCaptureMode if major else None
    except (OSError, AttributeError):  # on Windows, or linked into something else
        return None
