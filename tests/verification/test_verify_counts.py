"""A constant factor that is a ratio of two counts: the rows of a mask, and all rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from test_verify_steps import made, normal

import backsight as bs

TARGET = torch.tensor([2, 0, -100, 3, 1, -100, 3])
KEPT = torch.tensor([1.0, 0.0, 1.0, 1.0, 0.0])
WEIGHTS = torch.tensor([[1.0, 0.0, 3.0], [0.0, 2.0, 1.5]])


def entropy(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    valid = target != -100
    each = -x.log_softmax(-1).gather(-1, target.clamp(min=0)[:, None])[:, 0]
    return torch.where(valid, each, 0.0).sum() / valid.sum()


def entropy_back(right: bool) -> Callable[..., Any]:
    def backward(g: torch.Tensor, x: torch.Tensor, target: torch.Tensor) -> Any:
        valid = target != -100
        one = torch.zeros_like(x).scatter(1, target.clamp(min=0)[:, None], 1.0)
        d = (x.softmax(-1) - one) * valid[:, None]
        return g * d / (valid.sum() if right else len(x)), None

    return backward


def masked(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return (x.square() * mask[:, None]).sum(0) / mask.sum()


def masked_back(right: bool) -> Callable[..., Any]:
    def backward(g: torch.Tensor, x: torch.Tensor, mask: torch.Tensor) -> Any:
        return 2 * x * mask[:, None] * g / (mask.sum() if right else len(x)), None

    return backward


def weighted(x: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    return (x.sin() * weights).sum() / weights.count_nonzero()


def weighted_back(right: bool) -> Callable[..., Any]:
    def backward(g: torch.Tensor, x: torch.Tensor, weights: torch.Tensor) -> Any:
        return g * x.cos() * weights / (weights.count_nonzero() if right else weights.numel()), None

    return backward


X, Y = normal(5, 2).requires_grad_(), normal(2, 3).requires_grad_()
CASES = [
    (entropy, entropy_back, (normal(7, 4), TARGET), "It is 5 over 7: 5 is the result of the second sum in"),
    (
        masked,
        masked_back,
        (X, KEPT),
        "It is 3 over 5: 3 is the result of the second sum in",
    ),
    (
        weighted,
        weighted_back,
        (Y, WEIGHTS),
        "It is 4 over 6: 4 is the result of count_nonzero in",
    ),
]


@pytest.mark.parametrize(("forward", "backward", "inputs", "told"), CASES)
def test_what_forward_counts_is_named(forward: Any, backward: Any, inputs: Any, told: str) -> None:
    (finding,) = bs.verify(made(forward, backward(False)), *inputs).findings
    assert finding.code == "BS404"
    assert finding.evidence[-1].startswith(told)


@pytest.mark.parametrize(("forward", "backward", "inputs"), [case[:3] for case in CASES])
def test_the_right_count_is_not_accused(forward: Any, backward: Any, inputs: Any) -> None:
    assert bs.verify(made(forward, backward(True)), *inputs).ok


class Cooled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, tau):
        ctx.save_for_backward(x)
        return (x / tau).sin()

    @staticmethod
    def backward(ctx, g):
        return g * (ctx.saved_tensors[0] / 0.2).cos(), None


def test_a_factor_that_is_an_argument_is_called_by_its_name():
    (finding,) = bs.verify(Cooled.apply, torch.randn(3, 4), 0.2)
    assert finding.title == "Cooled.backward returns a fifth of the right gradient for `x`."
    assert finding.fix == "Divide the gradient of `x` by `tau`."


class Kept(Cooled):
    @staticmethod
    def forward(ctx, x, tau):
        ctx.temperature = tau
        return Cooled.forward(ctx, x, tau)


def test_it_is_called_as_backward_has_it_where_forward_keeps_it():
    (finding,) = bs.verify(Kept.apply, torch.randn(3, 4), 0.2)
    assert finding.fix == "Divide the gradient of `x` by `ctx.temperature`."
