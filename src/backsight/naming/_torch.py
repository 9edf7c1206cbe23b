"""Every part of torch below its public face that this room touches, and why.

- `torch._C.TensorBase`: its descriptors read `.grad`, `.is_leaf`, `.requires_grad`, `._version` and `._base` of any
  subclass without running an override. `.grad_fn` is never read: a node once touched from Python makes freeing its
  graph recursive.
- `torch._C.DisableTorchFunction`: keeps a user's `__torch_function__` and TorchFunctionModes out of those reads.
- `torch._C._FunctionBase`: tells the node of a custom Function among the referents of a tensor.
- `nn.Module._parameters`, `._buffers`, `._modules`: the registries that `named_parameters()` walks.
"""

from __future__ import annotations

from typing import Any

import torch

_BASE = vars(torch._C.TensorBase)

Tensor: type = torch.Tensor
Parameter: type = torch.nn.Parameter
Module: type = torch.nn.Module
Optimizer: type = torch.optim.Optimizer
FunctionNode: type = torch._C._FunctionBase
PLAIN_VALUES: tuple[type, ...] = (torch.dtype, torch.device, torch.Size, torch.layout, torch.memory_format)
REGISTRIES = {"_parameters": "parameter", "_buffers": "buffer", "_modules": "module"}

without_overrides: Any = torch._C.DisableTorchFunction


def gradient(tensor: object) -> object:
    """The `.grad` of a leaf; None for the rest, where reading it would warn.

    Nor is a view of what was changed in place asked: autograd would mend its history, by a new node.
    """
    try:
        looks_into = _BASE["_base"].__get__(tensor)
        if looks_into is not None and _BASE["requires_grad"].__get__(looks_into) and _BASE["_version"].__get__(tensor):
            return None
        return _BASE["grad"].__get__(tensor) if _BASE["is_leaf"].__get__(tensor) else None
    except Exception:  # wrapper subclasses may refuse; a tensor whose gradient cannot be read holds none for us
        return None


def base(tensor: object) -> object:
    """The tensor that a view looks into, or None."""
    try:
        return _BASE["_base"].__get__(tensor)
    except Exception:  # as above
        return None


def hooks(tensor: object) -> object:
    """The dict of a tensor's hooks, or None."""
    try:
        return _BASE["_backward_hooks"].__get__(tensor)
    except Exception:  # as above
        return None
