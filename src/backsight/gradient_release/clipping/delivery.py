"""A backward pass that makes the weight gradients which were kept as factors, one after another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from backsight.gradient_release.clipping.gradient import FactoredGradient


class Delivery(torch.autograd.Function):
    """A node whose backward returns a weight's whole gradient, and leaves nothing of its factors."""

    @staticmethod
    def forward(ctx: Any, weight: torch.Tensor, kept: list[FactoredGradient]) -> torch.Tensor:
        ctx.kept = kept
        return torch.zeros((), device=weight.device, dtype=weight.dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        return ctx.kept.pop().dense(), None


def deliver(weights: Sequence[torch.Tensor]) -> None:
    """Give each weight, whose `grad` is a FactoredGradient, a dense one, as if backward had just arrived at it.

    Through PyTorch's engine: it calls every hook on the gradient's arrival, ours and those of others, and takes over
    the tensor without a copy.
    """
    kept = [each.grad for each in weights]
    for weight in weights:
        weight.grad = None
    apply: Any = Delivery.apply  # which has no types
    with torch.enable_grad():
        # The engine runs what was made last first. A node holds its factors alone, and frees them one after another.
        roots = [apply(weight, [kept.pop()]) for weight in reversed(weights)]
    if roots:
        torch.autograd.backward(roots)
