"""The embedding that keeps the factors of its weight's gradient: which rows, and what is added to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from backsight.gradient_release.clipping._torch import has_tensor_hooks
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
    def forward(  # type: ignore[override]  # the base class takes *args
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
        if call.passes.keeps_factors() and not has_tensor_hooks(call.weight):
            # The index is part of a batch, which may be overwritten by the next before the step.
            if keep(call.weight, Rows(index.clone(), rows.detach(), call.padding)):
                return None, None, None, None, None
        return None, None, None, embedding_gradient(rows, index, call.weight, call.padding), None
