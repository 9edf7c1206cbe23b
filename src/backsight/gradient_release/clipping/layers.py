"""The layers that keep the factors of their weight's gradient, and in which passes: linear layers and embeddings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from backsight.gradient_release.clipping._torch import has_hooks, runs_in_this_backward
from backsight.gradient_release.clipping.factor import Product, Rows, embedding_gradient
from backsight.gradient_release.clipping.gradient import keep


class Passes:
    """Tells, in a node's backward, whether the pass is a plain `backward()`, in which a gradient may stay in factors.

    It is not in `autograd.grad` and `backward(inputs=...)`, which want certain gradients and no others, under
    `create_graph=True`, which differentiates them, and once clipping has ended. The nodes go over to ordinary gradients
    then.
    """

    def __init__(self) -> None:
        self.leaf = torch.zeros((), requires_grad=True)
        """An input of every node, of which nobody knows: only a plain `backward()` goes on to it."""
        self.factoring = True
        self._node = torch.autograd.graph.get_gradient_edge(self.leaf).node

    def keeps_factors(self) -> bool:
        """Whether a weight gradient that arises now may stay in factors."""
        return self.factoring and not torch.is_grad_enabled() and runs_in_this_backward(self._node)


@dataclass(frozen=True)
class LinearCall:
    """A call of a linear layer: its weight is (outputs, inputs), or (inputs, outputs) if `input_first`."""

    passes: Passes
    weight: torch.Tensor
    input_first: bool
    input_is_lent: bool
    """Whether the input belongs to the user, such as a batch, and may be overwritten before the step."""


class FactoredLinear(torch.autograd.Function):
    """`input @ weight.T + bias`, whose value is at hand, with a weight gradient that stays in factors.

    The other gradients, and the weight's where it cannot stay so, come from the kernels that PyTorch's own backward
    of `linear` calls, and have the same bits.
    """

    @staticmethod
    def forward(
        ctx: Any,
        value: list[torch.Tensor],
        call: LinearCall,
        leaf: torch.Tensor,
        given: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
    ) -> torch.Tensor:
        output = value.pop()
        # Under autocast the layer computes in a lower precision, and that is what its gradient is made of.
        ctx.save_for_backward(given.to(output.dtype), weight)
        ctx.call, ctx.shape, ctx.given_dtype = call, given.shape, given.dtype
        ctx.bias_dtype = None if bias is None else bias.dtype
        return output.detach()  # not a view: what follows may write to it

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        call: LinearCall = ctx.call
        given, weight = ctx.saved_tensors
        by_token = _matrix(gradients[0])
        inputs = _matrix(given)
        for_input = for_weight = for_bias = None
        if ctx.needs_input_grad[3]:
            cast = weight.to(by_token.dtype)
            for_input = by_token.mm(cast.t() if call.input_first else cast).view(ctx.shape).to(ctx.given_dtype)
        if ctx.needs_input_grad[4] and not _kept(call, by_token, inputs):
            left, right = (inputs, by_token) if call.input_first else (by_token, inputs)
            for_weight = left.t().mm(right).to(weight.dtype)
        if ctx.needs_input_grad[5]:
            for_bias = by_token.sum(0).to(ctx.bias_dtype)
        return None, None, None, for_input, for_weight, for_bias


def _kept(call: LinearCall, by_token: torch.Tensor, inputs: torch.Tensor) -> bool:
    """Keep the factors, if this is the time for it, and say whether."""
    if not call.passes.keeps_factors() or has_hooks(call.weight):
        return False
    inputs = inputs.clone() if call.input_is_lent else inputs.detach()
    left, right = (inputs, by_token.detach()) if call.input_first else (by_token.detach(), inputs)
    return keep(call.weight, Product(left, right))


def _matrix(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor of (..., features) as (tokens, features)."""
    return tensor.reshape(tensor.shape[:-1].numel(), tensor.shape[-1])


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
        dense = None if _kept_rows(call, rows, index) else embedding_gradient(rows, index, call.weight, call.padding)
        return None, None, None, dense, None


def _kept_rows(call: EmbeddingCall, rows: torch.Tensor, index: torch.Tensor) -> bool:
    """Keep the factors, if this is the time for it, and say whether."""
    if not call.passes.keeps_factors() or has_hooks(call.weight):
        return False
    # The index is part of a batch, which may be overwritten by the next before the step.
    return keep(call.weight, Rows(index.clone(), rows.detach(), call.padding))
