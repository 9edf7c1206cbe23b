"""Every private attribute of PyTorch that verification touches, each with what we need of it.

`tests/verification/test_private_surface_of_verification.py` fails loudly when one of them changes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from backsight.surface import take, there

_FUNCTIONS: type = type(torch.autograd.Function)


def applied(called: Any) -> type | None:
    """Return the `torch.autograd.Function` whose `apply`, the part of it in C, is `called`; None for what is another's.

    TorchFunctionMode does not see `apply`; `sys.setprofile` sees it called on every version.
    """
    if getattr(called, "__name__", "") != "apply":
        return None
    function = getattr(called, "__self__", None)
    return function if isinstance(function, type) and isinstance(function, _FUNCTIONS) else None


def same_versions(tensors: Iterable[torch.Tensor]) -> AbstractContextManager[Any]:
    """Give tensors their version back at the end: putting their old values back must not look like a change."""
    context: AbstractContextManager[Any] = _preserved(tuple(tensors)) if _preserved else nullcontext()
    return context


_preserved: Any = take(
    "torch.autograd.grad_mode._unsafe_preserve_version_counter", "verify of recorded graphs", without=None
)

FOLDER = os.path.dirname(torch.__file__) + os.sep
"""Frames of files in here are PyTorch's own."""

INTERNAL: frozenset[str] = frozenset({"BackwardHookFunction", "_NoopSaveInputs"})
"""Functions by which torch.nn.Module places its hooks, and checkpoints keep their inputs: identities that say nothing
about the user's code."""


GENERATED = "GeneratedBackwardFor_"
"""Prefix of the Functions that PyTorch makes for operators of `torch.library`; the operator itself is recorded."""


there("torch._C._autograd._get_sequence_nr", "verify")  # whether something that no mode sees has made a node

_LIBRARY = "verify of torch.library operators"
_overload: Any = take("torch._ops.OpOverload", _LIBRARY, without=None)
_packet: Any = take("torch._ops.OpOverloadPacket", _LIBRARY, without=None)
library: dict[str, Any] = take("torch._library.custom_ops.OPDEFS", _LIBRARY, without={})
"""The operators made with `torch.library.custom_op`, by name."""


def operator_name(function: Any) -> str | None:
    """Return `mylib::sin` for an operator of `torch.library`, and `sin` for one of PyTorch's; None for a function."""
    if _overload is not None and isinstance(function, _overload):
        function = function.overloadpacket
    if _packet is None or not isinstance(function, _packet):
        return None
    name: str = function._qualified_op_name
    return name.removeprefix("aten::")


def library_backward(operator: Any) -> tuple[Any, Any] | None:
    """Return the forward and the backward of an operator made with `torch.library.custom_op`."""
    definition = library.get(operator_name(operator) or "")
    if definition is None:
        return None
    return getattr(definition, "_init_fn", None), getattr(definition, "_backward_fn", None)


def transforming() -> bool:
    """Whether torch.func or torch.vmap is at work: tensors are wrappers then, of no use outside."""
    return _transform() is not None


_TRANSFORMS = "verify inside transforms"
_transform: Any = take("torch._C._functorch.peek_interpreter_stack", _TRANSFORMS, without=lambda: None)
_is_batched: Any = take("torch._C._functorch.is_batchedtensor", _TRANSFORMS, without=lambda _: False)
_is_tracked: Any = take("torch._C._functorch.is_gradtrackingtensor", _TRANSFORMS, without=lambda _: False)
_unwrapped: Any = take("torch._C._functorch.get_unwrapped", _TRANSFORMS)
_batch_dimension: Any = take("torch._C._functorch.maybe_get_bdim", _TRANSFORMS)
_call: Any = take("torch._functorch.autograd_function.custom_function_call", _TRANSFORMS, without=None)
_outside: Any = take(
    "torch._functorch.pyfunctorch.temporarily_clear_interpreter_stack", _TRANSFORMS, without=nullcontext
)


def is_call(function: Any) -> bool:
    """Whether this is what a transform calls in place of a Function's `apply`: with the Function, then its inputs.

    Modes see it, unlike `apply`.
    """
    return _call is not None and function is _call


def is_generated(function: type) -> bool:
    """Whether a transform made this Function of the program's, to run that on its wrappers."""
    return function.__module__ == type(_call).__module__


def seen_through(tensor: torch.Tensor) -> tuple[torch.Tensor, bool]:
    """Return the plain tensor that transforms have wrapped, and whether one of them, or the program, differentiates it.

    In torch.vmap it is the first sample, as the function that is mapped is written for one.
    """
    batched: list[int] = []
    wanted = tensor.requires_grad
    while (in_batch := _is_batched(tensor)) or _is_tracked(tensor):
        batched += [_batch_dimension(tensor)] if in_batch else []
        tensor = _unwrapped(tensor)
        wanted |= tensor.requires_grad
    with _outside(), torch.no_grad():
        for dimension in reversed(batched):  # each counts among the dimensions inside of its own wrapper
            tensor = tensor.select(dimension, 0)
    return tensor, wanted


def seed(number: int, device_types: frozenset[str] = frozenset()) -> None:
    """Seed the default generators.

    `torch.manual_seed` formats a stack to queue the seeding of devices not in use yet: 0.5 ms a call. This is 1 µs.
    """
    torch.default_generator.manual_seed(number)
    if "cuda" in device_types:
        torch.cuda.manual_seed_all(number)
