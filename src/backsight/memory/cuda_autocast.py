"""What CUDA's autocast does otherwise than the CPU's, for fake tensors on the CPU.

Source: aten/src/ATen/autocast_mode.h, aten/src/ATen/autocast_mode.cpp.
"""

from __future__ import annotations

from typing import Any

import torch

HALVES = (torch.float16, torch.bfloat16)

_FLOAT = frozenset(
    [
        "acos",
        "asin",
        "cosh",
        "erfinv",
        "exp",
        "expm1",
        "log",
        "log10",
        "log2",
        "log1p",
        "reciprocal",
        "rsqrt",
        "sinh",
        "tan",
        "pow",
        "__pow__",
        "__rpow__",
        "softplus",
        "layer_norm",
        "native_layer_norm",
        "group_norm",
        "cosine_similarity",
        "dist",
        "pdist",
        "renorm",
        "logsumexp",
    ]
)
"""What CUDA's autocast does in float32 and the CPU's does not; each half argument is copied for it."""

_SUMS = frozenset(["prod", "cumprod", "cumsum", "sum"])
"""What CUDA's autocast makes float32 without a copy of the argument."""

_AS_THEY_COME = frozenset(
    [
        "grid_sampler",
        "grid_sampler_2d",
        "grid_sampler_3d",
        "trace",
        "avg_pool3d",
        "max_pool3d",
        "adaptive_avg_pool3d",
        "max_unpool2d",
        "max_unpool3d",
        "reflection_pad1d",
        "reflection_pad2d",
        "replication_pad1d",
        "replication_pad2d",
        "replication_pad3d",
    ]
)
"""What the CPU's autocast does in float32 and CUDA's does not."""


def called(name: str, func: Any, args: Any, kwargs: Any) -> Any:
    """Call a function as CUDA's autocast does."""
    if name in _FLOAT:
        args, kwargs = tuple(map(_float, args)), {key: _float(value) for key, value in kwargs.items()}
    elif name in _SUMS and args and is_half(args[0]) and kwargs.get("dtype") is None:
        kwargs = {**kwargs, "dtype": torch.float32}
    elif name in _AS_THEY_COME:
        torch.set_autocast_enabled("cpu", False)
        try:
            return func(*args, **kwargs)
        finally:
            torch.set_autocast_enabled("cpu", True)
    return func(*args, **kwargs)


def is_half(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype in HALVES


def _float(value: Any) -> Any:
    return value.float() if is_half(value) else value
