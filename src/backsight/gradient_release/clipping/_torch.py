"""Every private attribute of PyTorch that clipping touches, each with what we need of it.

`tests/gradient_release/test_clipping_private_surface.py` fails loudly when one of them changes.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.autograd import forward_ad
from torch.utils.hooks import RemovableHandle

from backsight.surface import take, there

_CLIPPED = "release of clipped gradients"

runs_in_this_backward: Callable[[Any], bool] = take("torch._C._will_engine_execute_node", _CLIPPED)
"""Return whether the backward pass under way will run a node.

The node of a leaf that nobody else knows runs in `backward()`, and neither in `autograd.grad` nor in
`backward(inputs=...)`; `needs_input_grad` of a custom Function does not tell the two apart.
"""

_in_functorch: Callable[[], bool] = take("torch._C._are_functorch_transforms_active", _CLIPPED)
_tracing_state: Callable[[], Any] = take("torch._C._get_tracing_state", _CLIPPED)
there("torch.autograd.forward_ad._current_level", _CLIPPED)
there("torch.Tensor._backward_hooks", _CLIPPED)
there("torch.Tensor._post_accumulate_grad_hooks", _CLIPPED)


def is_transformed() -> bool:
    """Whether a tracer or a transform of `torch.func` runs, through which a custom Function does not go."""
    return (
        torch.compiler.is_compiling()
        or _in_functorch()
        or _tracing_state() is not None
        or forward_ad._current_level >= 0
    )


def has_hooks(weight: torch.Tensor) -> bool:
    """Whether somebody but the release wants to see the gradient of `weight` as it arrives, during backward."""
    arrival: Any = weight._post_accumulate_grad_hooks
    return bool(weight._backward_hooks) or (arrival is not None and len(arrival) > 1)


def before_other_forward_hooks(handle: RemovableHandle) -> None:
    """Let a global forward hook run first, so that the other hooks see the output that it returns.

    Its removal leaves nothing: PyTorch's own would leave the mark that it takes keyword arguments, and every module
    and compiler would ask for global hooks for the rest of the process.
    """
    _forward_hooks.move_to_end(handle.id, last=False)
    handle.extra_dict_ref = (*handle.extra_dict_ref, weakref.ref(_with_kwargs))


_forward_hooks: Any = take("torch.nn.modules.module._global_forward_hooks", _CLIPPED)  # an OrderedDict
_with_kwargs: Any = take("torch.nn.modules.module._global_forward_hooks_with_kwargs", _CLIPPED)
_grouped: Any = take("torch.utils._foreach_utils._group_tensors_by_device_and_dtype", _CLIPPED)


def by_device_and_dtype(tensors: Sequence[torch.Tensor]) -> list[list[int]]:
    """Return the places of `tensors`, grouped and ordered as `clip_grad_norm_` does, on which its rounding depends."""
    grouped = _grouped([list(tensors)], with_indices=True)
    return [places for _, places in grouped.values()]
