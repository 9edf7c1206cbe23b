"""Every private attribute of PyTorch that verification touches, each with what we need of it.

`tests/verification/test_private_surface_of_verification.py` fails loudly when one of them changes.
"""

from __future__ import annotations

import os
from types import CodeType
from typing import Any

import torch

APPLY: CodeType = torch.autograd.Function.apply.__func__.__code__  # type: ignore[attr-defined]
"""The code of `Function.apply`, which TorchFunctionMode does not see: its calls are noticed by this code object."""

FOLDER = os.path.dirname(torch.__file__) + os.sep
"""Frames of files in here are PyTorch's own."""

INTERNAL: frozenset[str] = frozenset({"BackwardHookFunction", "_NoopSaveInputs"})
"""Functions by which torch.nn.Module places its hooks, and checkpoints keep their inputs: identities that say nothing
about the user's code."""


def forward_class(node: Any) -> type | None:
    """Return the `torch.autograd.Function` behind a custom node."""
    return getattr(type(node), "_forward_cls", None)


GENERATED = "GeneratedBackwardFor_"
"""Prefix of the Functions that PyTorch makes for operators of `torch.library`; the operator itself is recorded."""


def operator_name(function: Any) -> str | None:
    """Return `mylib::sin` for an operator of `torch.library`, and `sin` for one of PyTorch's; None for a function."""
    if isinstance(function, torch._ops.OpOverload):
        function = function.overloadpacket
    if not isinstance(function, torch._ops.OpOverloadPacket):
        return None
    return function._qualified_op_name.removeprefix("aten::")


def library_backward(operator: Any) -> tuple[Any, Any] | None:
    """Return the forward and the backward of an operator made with `torch.library.custom_op`."""
    definitions = getattr(torch._library.custom_ops, "OPDEFS", {})
    definition = definitions.get(operator_name(operator))
    if definition is None:
        return None
    return getattr(definition, "_init_fn", None), getattr(definition, "_backward_fn", None)


def transforming() -> bool:
    """Whether torch.func or torch.vmap is at work: tensors are wrappers then, of no use outside."""
    return torch._C._functorch.peek_interpreter_stack() is not None


def seed(number: int, device_types: frozenset[str] = frozenset()) -> None:
    """Seed the default generators.

    `torch.manual_seed` formats a stack to queue the seeding of devices not in use yet: 0.5 ms a call. This is 1 µs.
    """
    torch.default_generator.manual_seed(number)
    if "cuda" in device_types:
        torch.cuda.manual_seed_all(number)
