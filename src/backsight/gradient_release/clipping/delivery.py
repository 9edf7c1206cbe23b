"""A backward pass that makes the weight gradients which were kept as factors, one after another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from backsight.gradient_release.clipping.gradient import FactoredGradient


class Delivery(torch.autograd.Function):
    """A node whose backward returns a weight's whole gradient, and leaves nothing of its factors."""

    @staticmethod
    def forward(ctx: Any, weight: torch.Tensor, kept: list[FactoredGradient]) -> torch.Tensor:  # type: ignore[override]  # the base class takes *args
        ctx.kept = kept
        return torch.zeros((), device=weight.device, dtype=weight.dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        return ctx.kept.pop().dense(), None


def deliver(weights: Sequence[torch.Tensor]) -> None:
    """Give each weight the gradient that its factors stand for, as if backward had just arrived at it.

    Through PyTorch's engine: it calls every hook on the gradient's arrival, ours and those of others, and takes over
    the tensor without a copy.
    """
    roots = []
    with torch.enable_grad():
        for weight in reversed(weights):  # the engine runs what was made last first
            kept = weight.grad
            if isinstance(kept, FactoredGradient):
                weight.grad = None
                roots.append(Delivery.apply(weight, [kept]))
    del kept
    if roots:
        torch.autograd.backward(roots)
