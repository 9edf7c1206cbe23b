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

INTERNAL = frozenset({"BackwardHookFunction"})
"""Functions by which torch.nn.Module places its hooks: identities that say nothing about the user's code."""


def forward_class(node: Any) -> type | None:
    """Return the `torch.autograd.Function` behind a custom node."""
    return getattr(type(node), "_forward_cls", None)


def seed(number: int, device_types: frozenset[str] = frozenset()) -> None:
    """Seed the default generators.

    `torch.manual_seed` formats a stack to queue the seeding of devices not in use yet: 0.5 ms a call. This is 1 µs.
    """
    torch.default_generator.manual_seed(number)
    if "cuda" in device_types:
        torch.cuda.manual_seed_all(number)
