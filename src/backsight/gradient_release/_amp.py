"""What gradient release needs of PyTorch's GradScaler beyond its documented surface.

`tests/gradient_release/test_clipping_private_surface.py` fails loudly when one of them changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from backsight.surface import take

_SCALER = "release with a gradient scaler"

check_and_unscale: Callable[[list[torch.Tensor], torch.Tensor, torch.Tensor], None] = take(
    "torch._amp_foreach_non_finite_check_and_unscale_", _SCALER
)
"""Multiply gradients by the inverse scale, given last; set `found_inf` to 1 if a number is not finite. The kernel of
GradScaler."""

CHECK_AND_UNSCALE: Any = take("torch.ops.aten._amp_foreach_non_finite_check_and_unscale_.default", _SCALER)
"""The same, as a subclass of Tensor sees it called by `GradScaler.unscale_`."""


def has_scaled(scaler: torch.amp.GradScaler) -> bool:
    """Whether a scaler has multiplied a loss, for which it makes the tensor of its scale."""
    return getattr(scaler, "_scale", None) is not None


def multipliers(loss: torch.Tensor) -> Iterator[torch.Tensor]:
    """Return the numbers by which the last operations on the way to a loss have multiplied it, where they are kept."""
    node: Any = loss.grad_fn
    for _ in range(MULTIPLICATIONS):
        if node is None:
            return
        for name in ("_saved_self", "_saved_other"):
            saved = getattr(node, name, None)
            if isinstance(saved, torch.Tensor) and saved.dim() == 0:
                yield saved
        node = next((following for following, _ in node.next_functions if following is not None), None)


MULTIPLICATIONS = 8
"""How many operations may lie between `scaler.scale` and the loss that backward is called on."""
