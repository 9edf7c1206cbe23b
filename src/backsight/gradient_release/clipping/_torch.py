"""Every private attribute of PyTorch that clipping touches, each with what we need of it.

`tests/gradient_release/test_clipping_private_surface.py` fails loudly when one of them changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.autograd import forward_ad
from torch.nn.modules import module
from torch.utils._foreach_utils import _group_tensors_by_device_and_dtype
from torch.utils.hooks import RemovableHandle


def runs_in_this_backward(node: Any) -> bool:
    """Whether the backward pass under way will run `node`.

    The node of a leaf that nobody else knows runs in `backward()`, and neither in `autograd.grad` nor in
    `backward(inputs=...)`; `needs_input_grad` of a custom Function does not tell the two apart.
    """
    return bool(torch._C._will_engine_execute_node(node))


def is_transformed() -> bool:
    """Whether a tracer or a transform of `torch.func` runs, through which a custom Function does not go."""
    return (
        torch.compiler.is_compiling()
        or torch._C._are_functorch_transforms_active()
        or torch._C._get_tracing_state() is not None
        or forward_ad._current_level >= 0
    )


def has_hooks(weight: torch.Tensor) -> bool:
    """Whether somebody but the release wants to see the gradient of `weight` as it arrives, during backward."""
    arrival: Any = weight._post_accumulate_grad_hooks
    return bool(weight._backward_hooks) or (arrival is not None and len(arrival) > 1)


def before_other_forward_hooks(handle: RemovableHandle) -> None:
    """Let a global forward hook run first, so that the other hooks see the output that it returns."""
    hooks: Any = module._global_forward_hooks  # an OrderedDict
    hooks.move_to_end(handle.id, last=False)


def by_device_and_dtype(tensors: Sequence[torch.Tensor]) -> list[list[int]]:
    """Return the places of `tensors`, grouped and ordered as `clip_grad_norm_` does, on which its rounding depends."""
    grouped = _group_tensors_by_device_and_dtype([list(tensors)], with_indices=True)
    return [places for _, places in grouped.values()]
