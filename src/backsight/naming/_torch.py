"""Every part of torch below its public face that this room touches, and why.

- The descriptors of `.grad`, `.is_leaf`, `.requires_grad`, `._version` and `._base` read these of any subclass without
  running an override. `.grad_fn` is never read: a node once touched from Python makes freeing its graph recursive.
- `torch._C.DisableTorchFunction`: keeps a user's `__torch_function__` and TorchFunctionModes out of those reads.
- `nn.Module._parameters`, `._buffers`, `._modules`: the registries that `named_parameters()` walks.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from operator import attrgetter
from typing import Any

import torch

from backsight.surface import take, there

Read = Callable[[object], Any]

Tensor: Any = torch.Tensor
_grad: Read = Tensor.grad.__get__
_is_leaf: Read = Tensor.is_leaf.__get__
requires_grad: Read = Tensor.requires_grad.__get__
"""Return whether a tensor requires grad, or has a history."""


def _descriptor(name: str, feature: str) -> Read:
    read: Read = take(f"torch.Tensor.{name}", feature, without=lambda _: None, read=attrgetter("__get__"))
    return read


_version = _descriptor("_version", "version counters")
_base = _descriptor("_base", "version counters")
_hooks = _descriptor("_backward_hooks", "names of hooks")

Parameter: type = torch.nn.Parameter
Module: type = torch.nn.Module
Optimizer: type = torch.optim.Optimizer
FunctionNode: type = torch.autograd.function.BackwardCFunction
PLAIN_VALUES: tuple[type, ...] = (torch.dtype, torch.device, torch.Size, torch.layout, torch.memory_format)
REGISTRIES = {
    name: kind
    for name, kind in (("_parameters", "parameter"), ("_buffers", "buffer"), ("_modules", "module"))
    if there(f"torch.nn.Module.{name}", "names from models")
}

without_overrides: Any = take("torch._C.DisableTorchFunction", "tensor subclasses", without=nullcontext)


def gradient(tensor: object) -> object:
    """The `.grad` of a leaf; None for the rest, where reading it would warn.

    Nor is a view of what was changed in place asked: autograd would mend its history, by a new node.
    """
    try:
        looks_into = _base(tensor)
        if looks_into is not None and requires_grad(looks_into) and _version(tensor):
            return None
        return _grad(tensor) if _is_leaf(tensor) else None
    except Exception:  # wrapper subclasses may refuse; a tensor whose gradient cannot be read holds none for us
        return None


def base(tensor: object) -> object:
    """The tensor that a view looks into, or None."""
    try:
        return _base(tensor)
    except Exception:  # as above
        return None


def hooks(tensor: object) -> object:
    """The dict of a tensor's hooks, or None."""
    try:
        return _hooks(tensor)
    except Exception:  # as above
        return None
