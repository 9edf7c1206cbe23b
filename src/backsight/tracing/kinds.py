"""What a function of PyTorch's does, as far as a watch cares."""

from __future__ import annotations

import re
from enum import Enum, auto
from types import (
    BuiltinFunctionType,
    FunctionType,
    GetSetDescriptorType,
    MethodDescriptorType,
    MethodWrapperType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any

import torch


class Kind(Enum):
    """What is to be noted of a call."""

    SILENT = auto()  # nothing: it only looks at a tensor
    PLAIN = auto()  # the nodes that it makes, and what it cuts off
    WRITES_FIRST = auto()  # it may change its first argument in place
    WRITES_ANY = auto()  # it may change any of its tensors in place: of lists, or through a Python function
    BACKWARD = auto()
    LEAVES = auto()  # it hands values to Python
    GRADIENT = auto()  # it reads `.grad`, which gives a warning where there is none to be had
    WRAPS = auto()  # it makes a tensor of values that come from Python


_LEAVES = frozenset({"item", "tolist", "numpy", "__array__", "__float__", "__complex__"})
_SILENT_NAMES = frozenset(
    {"size", "dim", "ndimension", "stride", "numel", "nelement", "element_size", "storage_offset", "data_ptr"}
    | {"untyped_storage", "storage", "storage_type", "get_device", "type", "is_shared", "is_pinned", "names"}
    | {"__len__", "__repr__", "__format__", "__hash__", "__bool__", "__int__", "__index__", "__contains__", "__dir__"}
    | {"register_hook", "register_post_accumulate_grad_hook", "requires_grad_", "retain_grad", "dim_order"}
    | {"__reduce_ex__", "__setstate__", "__deepcopy__", "share_memory_", "pin_memory"}
)
_READ = frozenset({"data", "T", "mT", "H", "mH", "real", "imag"})
"""Attributes of a tensor that are tensors made of it. (`grad` is not: it is another one.)"""

_IN_PLACE = re.compile(r"(?<!_)_$|^__i(?:add|sub|mul|truediv|floordiv|mod|pow|and|or|xor|lshift|rshift|matmul)__$")
_MANY = re.compile(r"^_foreach_.*_$|^_fused_|^_amp_foreach_")

_BACKWARDS = (torch.Tensor.backward, torch.autograd.backward, torch.autograd.grad)
_WRAPS = (torch.tensor, torch.as_tensor, torch.asarray, torch.from_numpy)


BY_IDENTITY = frozenset(
    {BuiltinFunctionType, FunctionType, MethodDescriptorType, MethodWrapperType, WrapperDescriptorType}
)
"""Types of functions that are hashed without code of the program's."""

known: dict[Any, Kind] = {}
"""The kinds of PyTorch's own functions. A mode reads it directly: it is asked at every call."""


def learn(function: Any) -> Kind:
    """Return the kind of a function, which is looked up once if it is one of PyTorch's own.

    One of the program's is not kept: it may be a closure over tensors.
    """
    kind = kind_of(function)
    if is_pytorchs(function):
        known[function] = kind
    return kind


def is_pytorchs(function: Any) -> bool:
    """Whether a function is one of PyTorch's own, of those that are there once and for all."""
    if type(function) not in BY_IDENTITY:
        return False
    if type(function) is FunctionType:
        return function.__closure__ is None and function.__globals__.get("__name__", "").split(".")[0] == "torch"
    holder = getattr(function, "__self__", None)  # of a getter, its descriptor; of a static method, its class
    return holder is None or isinstance(holder, type | ModuleType | GetSetDescriptorType)


def kind_of(function: Any) -> Kind:
    """Tell what `function`, as a mode is given it, does."""
    name = getattr(function, "__name__", "")
    if name == "__get__":
        attribute = getattr(getattr(function, "__self__", None), "__name__", "")
        if attribute == "grad":
            return Kind.GRADIENT
        return Kind.PLAIN if attribute in _READ else Kind.SILENT
    if any(function is each for each in _BACKWARDS):
        return Kind.BACKWARD
    if any(function is each for each in _WRAPS):
        return Kind.WRAPS
    if name in _LEAVES:
        return Kind.LEAVES
    if name == "__set__" and getattr(getattr(function, "__self__", None), "__name__", "") == "data":
        return Kind.WRITES_FIRST
    if name in _SILENT_NAMES or name.startswith(("is_", "has_")) or name in ("__set__", "__delete__"):
        return Kind.SILENT
    if _MANY.search(name) or getattr(getattr(function, "_schema", None), "is_mutable", False):
        return Kind.WRITES_ANY
    if name == "__setitem__" or _IN_PLACE.search(name):
        return Kind.WRITES_FIRST
    if isinstance(function, FunctionType):  # written in Python: what it does within is not seen
        return Kind.WRITES_ANY
    return Kind.PLAIN


def name_of(function: Any) -> str:
    """Return the name of what was called: `mul`, `__getitem__`, `.data` of an attribute, `.data =` where it is set."""
    name: str = getattr(function, "__name__", "") or type(function).__name__
    if name in ("__get__", "__set__"):
        attribute = "." + getattr(getattr(function, "__self__", None), "__name__", "")
        return attribute if name == "__get__" else f"{attribute} ="
    return name
