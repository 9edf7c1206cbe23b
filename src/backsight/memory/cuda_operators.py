"""Operators that CUDA has and the CPU has not, for fake tensors on the CPU: what they save, and what they return."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd import Function

from backsight.memory._torch import below_autograd, fused_rms_norm, fused_rms_norm_backward

FUSED_NORM = below_autograd is not None and fused_rms_norm_backward is not None
"""Whether this PyTorch has RMSNorm as one operator on CUDA. In older ones it is composed there, too."""

GATES = 5
"""Numbers that cuDNN keeps for each state of an LSTM: four gates and the cell.

Of the reserve on an H100 (cuDNN 9, float32): 400 steps × 16 × 64 took 8,192,256 bytes, and two layers of 512 in both
directions, 50 steps × 16, took 36,045,056. Both are exactly the gates and cells, the results of all layers but the
last, and 256 bytes.
"""


class FusedRmsNorm(Function):
    """`aten::_fused_rms_norm`, which saves its input and one number for each row, and no copy of the input."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, shape: list[int], weight: torch.Tensor | None, eps: float | None) -> Any:
        with below_autograd():
            result, rstd = fused_rms_norm(x, shape, weight, eps)
        ctx.save_for_backward(x, rstd, weight)
        ctx.shape = shape
        return result

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        x, rstd, weight = ctx.saved_tensors
        needed = [ctx.needs_input_grad[0], ctx.needs_input_grad[2]]
        with below_autograd():
            of_x, of_weight = fused_rms_norm_backward(gradient, x, ctx.shape, rstd, weight, needed)
        return of_x, None, of_weight if needed[1] else None, None


class CudnnLSTM(Function):
    """An LSTM as cuDNN does it: all layers at once, with a reserve for the backward, and the gradients in one block."""

    @staticmethod
    def forward(
        ctx: Any, layers: int, batch_first: bool, x: torch.Tensor, h: torch.Tensor, c: torch.Tensor, *weights: Any
    ) -> Any:
        steps, batch = (x.size(1), x.size(0)) if batch_first else (x.size(0), x.size(1))
        ways, width = h.size(0) // layers, h.size(2)
        output = x.new_empty(steps, batch, ways * width)
        h_end, c_end = h.new_empty(h.size()), c.new_empty(c.size())
        states = steps * batch * ways * width
        reserve = x.new_empty(states * (GATES * layers + layers - 1) * x.element_size() + 256, dtype=torch.uint8)
        output = output.transpose(0, 1) if batch_first else output
        ctx.save_for_backward(x, h, c, output, reserve, *weights)
        return output, h_end, c_end

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        x, h, c, _, _, *weights = ctx.saved_tensors
        of_x, of_h, of_c = (each.new_empty(each.size()) for each in (x, h, c))
        block = x.new_empty(sum(each.numel() for each in weights))
        parts = block.split([each.numel() for each in weights])
        of_weights = [part.view(each.size()) for part, each in zip(parts, weights, strict=True)]
        return None, None, of_x, of_h, of_c, *of_weights
