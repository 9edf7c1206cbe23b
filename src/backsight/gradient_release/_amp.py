"""What gradient release needs of PyTorch's GradScaler beyond its documented surface.

`tests/gradient_release/test_clipping_private_surface.py` fails loudly when one of them changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch


def check_and_unscale(gradients: list[torch.Tensor], found_inf: torch.Tensor, inverse_scale: torch.Tensor) -> None:
    """Multiply gradients by `inverse_scale`; set `found_inf` to 1 if a number is not finite. GradScaler's kernel."""
    torch._amp_foreach_non_finite_check_and_unscale_(gradients, found_inf, inverse_scale)


CHECK_AND_UNSCALE = torch.ops.aten._amp_foreach_non_finite_check_and_unscale_.default
"""The same, as a subclass of Tensor sees it called by `GradScaler.unscale_`."""


def has_scaled(scaler: torch.amp.GradScaler) -> bool:
    """Whether a scaler has multiplied a loss, for which it makes the tensor of its scale."""
    return scaler._scale is not None


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
