"""`LikeCUDA`: a program whose fake tensors are on the CPU calls the operators that it would call on CUDA.

PyTorch composes some functions of other operators on CUDA than on the CPU, and autocast has another list there. What
differs decides which tensors are saved for the backward pass, so each such function is in a table here:

- `rms_norm` is one operator, which saves no normalized copy (`layer_norm.cpp`, `rms_norm_symint`);
- `dropout` saves a mask of bool, and no noise in the type of its input (`Dropout.cpp`, `is_fused_kernel_acceptable`);
- attention with a mask or dropout has a kernel too, and saves no tokens × tokens (`cuda/sdp_utils.cpp`);
- softmax of float16 into float32 makes no copy in between (`SoftMax.cpp`), and under autocast, cross-entropy takes its
  logarithms in the lower precision, while normalizations, powers and others make float32 (`autocast_mode.h`);
- an LSTM is cuDNN's, with its reserve.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from functools import cache
from types import FunctionType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from backsight.memory._torch import efficient_attention, flash_attention, inside_transform
from backsight.memory.cuda_autocast import HALVES, called, is_half
from backsight.memory.cuda_operators import FUSED_NORM, CudnnLSTM, FusedRmsNorm

_aten = torch.ops.aten
_cuda: Any = torch.backends.cuda

_RECURRENT = frozenset(["lstm", "gru", "rnn_tanh", "rnn_relu"])

_CHECKS = frozenset(("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic"))
_HOMES = ("torch.nn.functional", "torch.functional", "torch._tensor", "torch.autograd")
"""Modules whose functions ask the modes first and then call others, which the modes would not see."""

_HEAD = 256
"""The widest head that flash attention takes."""


class LikeCUDA(TorchFunctionMode):
    """Replace what CUDA does otherwise while it is entered, in this thread alone.

    ```python
    recurrent = set()
    with FakeTensorMode(), LikeCUDA(recurrent):
        F.dropout(x, 0.1)       # saves a mask of bool
    ```

    It is seen inside of PyTorch's own functions too, and in a backward pass, where checkpoints compute again.
    `recurrent` gets the names of the recurrent layers that are met: those of cuDNN, and "others", left as on the CPU.
    """

    def __init__(self, recurrent: set[str]) -> None:
        super().__init__()
        self._recurrent = recurrent

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        opened = _opened(func) if isinstance(func, FunctionType) else None
        if opened is not None:
            with self:
                return opened(*args, **kwargs)
        name = func.__name__ if _is_torchs(func) else ""
        if name in _RECURRENT:
            return self._recurring(name, func, args, kwargs)
        other = _OTHERS.get(name)
        if other is not None and _takes(other, args, kwargs) and not inside_transform():
            found = other(*args, **kwargs)
            if found is not None:
                return found
        return called(name, func, args, kwargs) if torch.is_autocast_enabled("cpu") else func(*args, **kwargs)

    def _recurring(self, name: str, func: Any, args: Any, kwargs: Any) -> Any:
        known = name == "lstm" and _takes(_lstm, args, kwargs) and not inside_transform()
        found = _lstm(*args, **kwargs) if known else None
        self._recurrent.add("others" if found is None else "cuDNN")
        return func(*args, **kwargs) if found is None else found


@cache
def _opened(function: FunctionType) -> FunctionType | None:
    """Return a function of PyTorch's as it is where no mode is to be asked; None for one that asks none."""
    home = function.__module__
    if home not in _HOMES or function.__closure__ or not _CHECKS & set(function.__code__.co_names):
        return None
    if function.__globals__ is not vars(sys.modules[home]):
        return None
    scope = function.__globals__ | dict.fromkeys(_CHECKS & set(function.__globals__), _no)
    opened = FunctionType(function.__code__, scope, function.__name__, function.__defaults__)
    opened.__kwdefaults__ = function.__kwdefaults__
    return opened


def _no(*tensors: Any) -> bool:
    return False


def _is_torchs(function: Any) -> bool:
    """Whether a function is PyTorch's own; methods of tensors that are written in C have no module."""
    home = getattr(function, "__module__", None) or "torch"
    return hasattr(function, "__name__") and str(home).partition(".")[0] == "torch"


def _takes(other: Callable[..., Any], args: Any, kwargs: Any) -> bool:
    """Whether a function has these arguments; PyTorch's own may be called otherwise, as with `out`."""
    try:
        _signature(other).bind(*args, **kwargs)
    except TypeError:
        return False
    return True


_signature = cache(inspect.signature)


def _rms_norm(input: Any, normalized_shape: Any, weight: Any = None, eps: float | None = None) -> Any:
    """Return what one kernel computes where types agree and channels are not last."""
    if not FUSED_NORM or input.is_complex() or (weight is not None and weight.dtype != input.dtype):
        return None
    last = {4: torch.channels_last, 5: torch.channels_last_3d}.get(input.dim())
    if last is not None and not input.is_contiguous() and input.is_contiguous(memory_format=last):
        return None
    return FusedRmsNorm.apply(input, list(normalized_shape), weight, eps)  # type: ignore[no-untyped-call]  # PyTorch's


def _dropout(input: Any, p: float, train: bool) -> Any:
    return torch.native_dropout(input, p, True)[0] if train and 0 < p < 1 and input.numel() else None


def _softmax(input: Any, dim: Any, dtype: Any = None) -> Any:
    return _in_float32(_aten._softmax, input, dim, dtype)


def _log_softmax(input: Any, dim: Any, dtype: Any = None) -> Any:
    return _in_float32(_aten._log_softmax, input, dim, dtype)


def _in_float32(function: Any, input: Any, dim: Any, dtype: Any) -> Any:
    """Return a softmax of lower precision in float32, where that is asked for; float16 needs no copy for it."""
    if dtype is None and torch.is_autocast_enabled("cpu"):
        dtype = torch.float32
    if dtype is not torch.float32 or not is_half(input) or not isinstance(dim, int):
        return None
    return function(input, dim, True) if input.dtype is torch.float16 else function(input.float(), dim, False)


def _cross_entropy(
    x: Any, target: Any, weight: Any = None, reduction: int = 1, ignore_index: int = -100, label_smoothing: float = 0.0
) -> Any:
    """Return the loss by logarithms in the lower precision, which only then become float32."""
    if not torch.is_autocast_enabled("cpu") or not is_half(x) or target.is_floating_point() or label_smoothing:
        return None
    logarithms = _aten._log_softmax(x, 0 if x.dim() == 1 else 1, False)
    return _aten.nll_loss_nd(logarithms, target, weight, reduction, ignore_index)


def _attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """Return what the kernel that CUDA would choose computes; cuDNN's and flash attention save the same."""
    if torch.is_autocast_enabled("cpu"):
        kind = torch.get_autocast_dtype("cpu")
        query, key, value = (each.to(kind) for each in (query, key, value))
        attn_mask = attn_mask.to(kind) if attn_mask is not None and attn_mask.is_floating_point() else attn_mask
    tensors = (query, key, value)
    if any(each.dim() != 4 or not each.numel() or each.stride(3) != 1 for each in tensors):
        return None
    heads = [each.size(3) for each in tensors]
    if heads[0] != heads[1] or query.dtype not in (*HALVES, torch.float32):
        return None
    half = query.dtype in HALVES
    if half and attn_mask is None and _fits_flash(heads) and (not is_causal or query.size(2) == key.size(2)):
        return flash_attention(*tensors, dropout_p, is_causal, False, scale=scale)[0]
    aligned = not any(head % (8 if half else 4) for head in heads)
    if enable_gqa or not aligned or not _cuda.mem_efficient_sdp_enabled():
        return None
    mask = None if attn_mask is None else _bias(attn_mask, query, key)
    trained = torch.is_grad_enabled() and any(each.requires_grad for each in tensors)
    found = efficient_attention(*tensors, mask, trained, dropout_p, is_causal, scale=scale)
    return found[0]


def _fits_flash(heads: list[int]) -> bool:
    alike = len(set(heads)) == 1 and heads[0] <= _HEAD and not heads[0] % 8
    return alike and bool(_cuda.flash_sdp_enabled())


def _bias(mask: Any, query: Any, key: Any) -> Any:
    """Return a mask as the kernel takes it: in the type of the query, its rows a multiple of 16, for each head."""
    if mask.dtype is torch.bool:
        mask = torch.where(mask, query.new_zeros(()), query.new_full((), float("-inf")))
    if mask.size(-1) % 16:
        mask = torch.nn.functional.pad(mask, (0, 16 - mask.size(-1) % 16))[..., : mask.size(-1)]
    return mask.expand(query.size(0), query.size(1), query.size(2), key.size(2))


def _lstm(
    input: Any,
    hx: Any,
    params: Any,
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> Any:
    """Return output and states as of cuDNN; None for packed sequences, for projections, and in lower precision."""
    if not isinstance(hx, (tuple, list)) or input.dim() != 3 or input.dtype is not torch.float32:
        return None
    if not train or torch.is_autocast_enabled("cpu") or hx[0].size(-1) != hx[1].size(-1):
        return None
    return CudnnLSTM.apply(num_layers, batch_first, input, *hx, *params)  # type: ignore[no-untyped-call]  # as above


_OTHERS: dict[str, Callable[..., Any]] = {
    "rms_norm": _rms_norm,
    "dropout": _dropout,
    "softmax": _softmax,
    "log_softmax": _log_softmax,
    "cross_entropy_loss": _cross_entropy,
    "scaled_dot_product_attention": _attention,
}
"""What CUDA calls in place of a function, if it returns anything but None."""
