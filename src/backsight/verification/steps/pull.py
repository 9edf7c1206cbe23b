"""Jᵀ u of one step, and values whose gradient is made by a function of ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from backsight.verification.steps.step import Step


class _Pulled(torch.autograd.Function):
    """Values whose gradient is computed by a function of ours."""

    @staticmethod
    def forward(ctx: Any, values: torch.Tensor, x: torch.Tensor, pull: Callable[[torch.Tensor], torch.Tensor]) -> Any:
        ctx.pull = pull
        return values.clone()

    @staticmethod
    def backward(ctx: Any, u: torch.Tensor) -> Any:
        return u, ctx.pull(u), None


def pulled(values: torch.Tensor, x: torch.Tensor, pull: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """Return these values, with a gradient of x that `pull` makes of grad_output, beside the one that they carry."""
    apply: Any = _Pulled.apply
    made: torch.Tensor = apply(values, x, pull)
    return made


class Pull:
    """Jᵀ u of one operand of a step, and J v; torch.func, which has both, takes seconds to be imported.

    Both are zero where the step does not depend on the operand, as what only guards an exp does not.
    """

    def __init__(self, step: Step, number: int, x: torch.Tensor):
        with torch.enable_grad():
            self._x = x.detach().requires_grad_()
            self._y = step.with_operand(number, self._x)

    def __call__(self, u: torch.Tensor) -> torch.Tensor:
        if not self._y.requires_grad:
            return torch.zeros_like(self._x)
        (found,) = torch.autograd.grad(self._y, self._x, u, retain_graph=True)
        return found

    def push(self, v: torch.Tensor) -> torch.Tensor:
        """The transpose of the transpose."""
        if not self._y.requires_grad:
            return torch.zeros_like(self._y)
        with torch.enable_grad():
            u = torch.zeros_like(self._y).requires_grad_()
            (pulled,) = torch.autograd.grad(self._y, self._x, u, create_graph=True)
            (found,) = torch.autograd.grad(pulled, u, v)
        return found
