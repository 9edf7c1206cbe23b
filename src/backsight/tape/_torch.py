"""Every private attribute of PyTorch that the tape touches, each with what we need of it.

`tests/tape/test_private_surface.py` fails loudly when one of them changes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from inspect import getattr_static
from operator import methodcaller
from typing import Any

import torch

NO_SEQUENCE = 2**64 - 1
"""`_sequence_nr()` of AccumulateGrad: it is made once a leaf and stands outside the order of creation."""


sequence_number: Callable[[Any], int] = methodcaller("_sequence_nr")
"""Return the per-thread creation number of a node; sorting by it is a topological sort within a thread."""


grad_fn: Callable[[torch.Tensor], Any] = getattr_static(torch.Tensor, "grad_fn").__get__
"""Read `grad_fn` past whatever a subclass of `Tensor` defines under that name."""


def _keeps_its_wrapper() -> bool:
    """Whether a node of this PyTorch owns the Python object that stands for it, which then lives as long as the node.

    Before, that object dies with its last reference, and another node's may be made at the same address.
    """
    with torch._C.DisableTorchFunction(), torch.inference_mode(False), torch.enable_grad():
        made = torch.zeros((), device="cpu", requires_grad=True).exp()
    node, unowned = grad_fn(made), object()
    return sys.getrefcount(node) > sys.getrefcount(unowned)


def _id_of_metadata(node: Any) -> int:
    return id(node.metadata)


identity: Callable[[Any], int] = id if _keeps_its_wrapper() else _id_of_metadata
"""Return a number that no other node has while `node` lives: the address of what it owns in Python.

Where that is not its wrapper it is the dict of its `metadata`, which is made when it is first asked for.
"""


def is_mended(tensor: torch.Tensor) -> bool:
    """Whether autograd may mend the history of `tensor` when asked for it: a view of what was changed in place.

    That makes a new node, and of a view that a graph has saved it may close a circle in C++ which nothing frees. Even
    `is_leaf` asks. Source: torch/csrc/autograd/variable.cpp, `VariableHooks::grad_fn`.
    """
    base = tensor._base
    return base is not None and base.requires_grad and not tensor.is_inference() and bool(tensor._version)


def is_leaf(tensor: torch.Tensor) -> bool:
    """Whether `tensor` requires a gradient and nothing made it; a view of what was changed in place counts as made."""
    return tensor.requires_grad and not is_mended(tensor) and tensor.is_leaf


def next_sequence_number() -> int:
    """Return the number that the next node made in this thread will get (0.1 µs)."""
    return int(torch._C._autograd._get_sequence_nr())


def in_backward() -> bool:
    """Whether this thread is inside of a backward pass."""
    return bool(torch._C._current_graph_task_id() != -1)


def input_metadata(node: Any) -> Any:
    """Return shape, dtype and device of each gradient that comes into `node`: those of the outputs it made."""
    return getattr(node, "_input_metadata", ())


def leaf_dtype(leaf: torch.Tensor, otherwise: torch.dtype) -> torch.dtype | None:
    """Return the dtype in which `leaf` wants its gradient: `grad_dtype`, where PyTorch has it; None for any."""
    getter = getattr_static(torch.Tensor, "grad_dtype", None)
    return otherwise if getter is None else getter.__get__(leaf)


def forward_class(node_type: type) -> type | None:
    """Return the user's `torch.autograd.Function` class behind the type of a custom node."""
    return getattr(node_type, "_forward_cls", None)


def is_parameter(tensor: torch.Tensor) -> bool:
    """Whether `tensor` is a Parameter or a custom tensor marked as one; `isinstance` would ask its `__getattr__`."""
    return issubclass(type(tensor), torch.nn.Parameter) or "_is_param" in object.__getattribute__(tensor, "__dict__")


def no_torch_function() -> AbstractContextManager[None]:
    """Keep `__torch_function__` of tensor subclasses and modes from running while we look at tensors."""
    return torch._C.DisableTorchFunction()


def registered(module: torch.nn.Module, registry: str) -> dict[str, object]:
    """Return a module's `_modules`, `_parameters` or `_buffers`, past whatever its class overrides.

    A module whose `__init__` never called that of `nn.Module` has none.
    """
    held = object.__getattribute__(module, "__dict__").get(registry)
    return dict(dict.items(held)) if issubclass(type(held), dict) else {}


RAW = "_raw_saved_"
"""Prefix of the handles on saved tensors. `_saved_x` without `raw` runs unpack hooks: one read of it under
checkpointing re-ran the forward pass. The handle's `.data` and `.unpack_hook` run nothing."""

CHECKED = "_saved_"
"""Prefix of the getters that check the version. Only read where no hook is installed."""


def set_version(tensor: torch.Tensor, version: int) -> None:
    """Have `tensor`, and all that share its memory by views, be of another version."""
    torch._C._autograd._unsafe_set_version_counter((tensor,), (version,))


def can_read(raw: Any) -> bool:
    """Whether this PyTorch lets a saved tensor be looked at without being unpacked."""
    return hasattr(raw, "data") and hasattr(raw, "unpack_hook")
