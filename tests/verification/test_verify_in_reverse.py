"""A derivative that comes out in reverse order: a flip before a running sum that is not undone after it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from test_verify_steps import made, normal

import backsight as bs


def log_running(x: torch.Tensor) -> torch.Tensor:
    most = x.max(dim=-1, keepdim=True).values
    return (x - most).exp().cumsum(-1).log() + most


def log_running_back(undone: bool) -> Callable[..., Any]:
    def backward(g: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        sums = (g * (-log_running(x)).exp()).flip(-1).cumsum(-1)
        return x.exp() * (sums.flip(-1) if undone else sums)

    return backward


def products(x: torch.Tensor) -> torch.Tensor:
    return x.exp().cumprod(0).sin()


def products_back(undone: bool) -> Callable[..., Any]:
    def backward(g: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        y = x.exp().cumprod(0)
        sums = (g * y.cos() * y).flip(0).cumsum(0)
        return sums.flip(0) if undone else sums * (-x).exp().flip(0) * x.exp()

    return backward


def squares(x: torch.Tensor) -> torch.Tensor:
    return x.square().cumsum(0)


def squares_back(undone: bool) -> Callable[..., Any]:
    def backward(g: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        sums = g.flip(0).cumsum(0)
        return 2 * x * (sums.flip(0) if undone else sums)

    return backward


CASES = [
    (log_running, log_running_back, normal(3, 7), "the derivative of cumsum in", 1),
    (products, products_back, normal(5, 2), "the derivative of cumprod in", 0),
    (squares, squares_back, normal(6, 2), "the derivative of cumsum in", 0),
]


@pytest.mark.parametrize(("forward", "backward", "x", "step", "dimension"), CASES)
def test_a_flip_that_is_not_undone(forward: Any, backward: Any, x: torch.Tensor, step: str, dimension: int) -> None:
    (finding,) = bs.verify(made(forward, backward(False)), x).findings
    assert finding.code == "BS405"
    assert step in finding.title and f"in reverse order along dimension {dimension}" in finding.title


@pytest.mark.parametrize(("forward", "backward", "x"), [case[:3] for case in CASES])
def test_a_flip_that_is_undone(forward: Any, backward: Any, x: torch.Tensor) -> None:
    assert bs.verify(made(forward, backward(True)), x).ok
