"""The embedding that keeps the factors of its weight's gradient: which rows, and what is added to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from backsight.gradient_release.clipping._torch import has_hooks
from backsight.gradient_release.clipping.factor import Rows, embedding_gradient
from backsight.gradient_release.clipping.gradient import keep
from backsight.gradient_release.clipping.passes import Passes


@dataclass(frozen=True)
class EmbeddingCall:
    """A call of an embedding, whose row `padding` is not trained."""

    passes: Passes
    weight: torch.Tensor
    padding: int | None


class FactoredEmbedding(torch.autograd.Function):
    """`weight[index]`, whose value is at hand, with a weight gradient that stays in factors."""

    @staticmethod
    def forward(
        ctx: Any,
        value: list[torch.Tensor],
        call: EmbeddingCall,
        leaf: torch.Tensor,
        weight: torch.Tensor,
        index: torch.Tensor,
    ) -> torch.Tensor:
        ctx.save_for_backward(index)
        ctx.call = call
        return value.pop().detach()  # not a view: what follows may write to it

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        call: EmbeddingCall = ctx.call
        (index,) = ctx.saved_tensors
        rows, index = gradients[0].reshape(index.numel(), call.weight.shape[1]), index.flatten()
        dense = None if _kept(call, rows, index) else embedding_gradient(rows, index, call.weight, call.padding)
        return None, None, None, dense, None


def _kept(call: EmbeddingCall, rows: torch.Tensor, index: torch.Tensor) -> bool:
    """Keep the factors, if this is the time for it, and say whether."""
    if not call.passes.keeps_factors() or has_hooks(call.weight):
        return False
    # The index is part of a batch, which may be overwritten by the next before the step.
    return keep(call.weight, Rows(index.clone(), rows.detach(), call.padding))
