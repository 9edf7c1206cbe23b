"""Every private attribute of PyTorch that measuring touches, each with what we need of it.

`tests/memory/test_private_surface_memory.py` fails loudly when one of them changes.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from backsight.surface import take, there

_FORECAST, _MEASURED = "memory forecast", "measured memory"


there("torch._C._current_graph_task_id", _MEASURED)  # which pass an allocation is of
there("torch.UntypedStorage._cdata", _MEASURED)  # which memory a tensor has


class _NeverMet(Exception):
    """Stands for a class of PyTorch's that is not there: nothing is of it."""


def _fake(name: str) -> Any:
    return take(f"torch._subclasses.fake_tensor.{name}", _FORECAST, without=_NeverMet)


FakeTensor = _fake("FakeTensor")
FakeTensorMode = _fake("FakeTensorMode")
FAKE_DISPATCH: Any = take(
    "torch._subclasses.fake_tensor.FakeTensorMode._dispatch_impl.__code__", _FORECAST, without=None
)
"""The function in which the fake form of an operator is called: `func`, `args` and `kwargs` are among its variables."""

CHECKS = {
    take(f"torch.distributions.Distribution.{name}.__code__", _FORECAST, without=None)
    for name in ("__init__", "_validate_sample")
}
"""Where a distribution of PyTorch raises unless all its arguments, or all values of a sample, are valid."""

FAKE_LOG = "torch._subclasses.fake_tensor"
"""The name of the logger that tells the traceback of such an error, before it is raised."""

DataDependentOutput = _fake("DataDependentOutputException")
NO_VALUES = (DataDependentOutput, _fake("DynamicOutputShapeException"))
"""What is raised where the shape or the course of a program depends on values, which fake tensors do not have."""

NOT_FAKE = (_fake("UnsupportedOperatorException"), _fake("UnsupportedFakeTensorException"))
"""What is raised where an operation cannot be imagined."""

FAMILIAR = frozenset({torch.Tensor, torch.nn.Parameter, torch.nn.Buffer, FakeTensor})
"""Types of tensors that hold their own storage; the others are made of these."""

COMPILED = "_orig_mod"
"""The name under which `torch.compile(module)` holds the module."""


current_node: Callable[[], Any] = take("torch._C._current_autograd_node", _MEASURED)
"""Return the autograd node that runs in this thread."""


EventType: Any = take("torch._C._profiler._EventType", _MEASURED)
"""What an event of the profiler's tree is: `Allocation`, `TorchOp` and others."""

BACKWARD: Any = take("torch._C._profiler.RecordScope.BACKWARD_FUNCTION", _MEASURED)
"""The scope of an autograd node's own event."""

USER: Any = take("torch._C._profiler.RecordScope.USER_SCOPE", _MEASURED)
"""The scope of `torch.profiler.record_function`."""

EVALUATE = "autograd::engine::evaluate_function: "
"""How the name of the event around a node begins (`torch/csrc/autograd/engine.cpp`)."""

STEP = "Optimizer.step#"
ZERO_GRAD = "Optimizer.zero_grad#"
"""How the events of optimizers begin (`torch/optim/optimizer.py`)."""


def event_tree(profiler: Any) -> Any:
    """Return the events of a closed `torch.profiler.profile` as they are nested."""
    return profiler.profiler.kineto_results.experimental_event_tree()


RNN: Any = take("torch.ops.aten.mkldnn_rnn_layer.default", _FORECAST, without=None)
RNN_BACKWARD: Any = take("torch.ops.aten.mkldnn_rnn_layer_backward.default", _FORECAST, without=None)
"""A layer of an LSTM as oneDNN runs it. What the first saves for the second has no size in its fake form."""


def memory_reports(profiler: Any) -> list[int]:
    """Return the bytes that a closed `torch.profiler.profile` saw taken, and negative those given back, in order."""
    reports = [each for each in profiler.profiler.kineto_results.events() if each.name() == "[memory]"]
    return [each.nbytes() for each in sorted(reports, key=lambda each: each.start_ns())]


def fake_mode() -> Any:
    """Return the FakeTensorMode that is entered; None if there is none."""
    return None if _dispatch_mode is None or _fake_key is None else _dispatch_mode(_fake_key)


_dispatch_mode: Any = take("torch._C._get_dispatch_mode", _FORECAST, without=None)
_fake_key: Any = take("torch._C._TorchDispatchModeKey.FAKE", _FORECAST, without=None)

below_autograd: Any = take("torch._C._AutoDispatchBelowAutograd", _FORECAST, without=None)
"""A context in which an operator that is composed of others for the CPU is called as one, without a node."""


def _operator(name: str) -> Any:
    """Return an operator of PyTorch that CUDA's functions call; None where this PyTorch composes it of others."""
    return getattr(torch.ops.aten, name, None)


fused_rms_norm, fused_rms_norm_backward = _operator("_fused_rms_norm"), _operator("_fused_rms_norm_backward")
flash_attention = _operator("_scaled_dot_product_flash_attention")
efficient_attention = _operator("_scaled_dot_product_efficient_attention")

inside_transform: Callable[[], bool] = take(
    "torch._C._are_functorch_transforms_active", _FORECAST, without=lambda: False
)
"""Whether a transform of `torch.func` is at work."""

without_modes: Any = take("torch.utils._python_dispatch._disable_current_modes", _FORECAST)
"""A context in which tensors are real again, whatever modes are entered."""


def forget_fakes(mode: Any) -> None:
    """Let a fake mode forget which tensors it made: `Module.to` replaces no parameter that has a weak reference."""
    mode.fake_tensor_converter.meta_converter.tensor_memo.clear()


def log_level() -> Any:
    """Return the least severity that PyTorch's C++ code logs to stderr, as a number to be set; None if it is hidden.

    INFO is 0, WARNING 1 and ERROR 2 (`c10/util/Logging.cpp`).
    """
    try:
        library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libc10.so"))
        return ctypes.c_int.in_dll(library, "FLAGS_caffe2_log_level")
    except (OSError, ValueError):  # another platform, or a build that logs otherwise
        return None


@contextmanager
def without_log_warnings() -> Iterator[None]:
    """Keep the allocator from logging each thousandth block that is freed and was there before the profiler.

    Every step frees some; the ledger knows them (`c10/core/CPUAllocator.cpp`, `ProfiledCPUMemoryReporter::Delete`).
    """
    level = log_level()
    before = None if level is None else level.value
    try:
        if before is not None:
            level.value = max(before, 2)
        yield
    finally:
        if before is not None:
            level.value = before
