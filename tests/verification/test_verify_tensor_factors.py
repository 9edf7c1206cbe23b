"""One part of a gradient has an extra factor a power of a tensor: a norm, a deviation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from test_verify_steps import made, normal

import backsight as bs


def unit(x: torch.Tensor) -> torch.Tensor:
    norm = x.norm(dim=-1, keepdim=True).clamp_min(1e-8)
    return x / norm


def unit_back(right: bool) -> Callable[..., Any]:
    def backward(g: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        norm = x.norm(dim=-1, keepdim=True)
        y = x / norm if right else x
        return (g - y * (y * g).sum(-1, keepdim=True)) / norm

    return backward


def rms(x: torch.Tensor) -> torch.Tensor:
    rstd = (x.square().mean(-1, keepdim=True) + 0.1).rsqrt()
    return x * rstd


def rms_back(right: bool) -> Callable[..., Any]:
    def backward(g: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        rstd = (x.square().mean(-1, keepdim=True) + 0.1).rsqrt()
        y = x * rstd if right else x
        return rstd * (g - y * (g * y).mean(-1, keepdim=True))

    return backward


def shares(x: torch.Tensor) -> torch.Tensor:
    total = x.square().sum(0, keepdim=True)
    return x / total


def shares_back(right: bool) -> Callable[..., Any]:
    def backward(g: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        total = x.square().sum(0, keepdim=True)
        return g / total - 2 * x * (g * x).sum(0, keepdim=True) / total ** (2 if right else 4)

    return backward


CASES = [
    (unit, unit_back, (normal(4, 6),), "the square of the result of clamp_min in"),
    (rms, rms_back, (normal(4, 6),), "one over the square of the result of rsqrt in"),
    (shares, shares_back, (normal(5, 3),), "one over the square of the result of sum in"),
]


@pytest.mark.parametrize(("forward", "backward", "inputs", "factor"), CASES)
def test_a_tensor_that_is_a_factor_too_many(forward: Any, backward: Any, inputs: Any, factor: str) -> None:
    (finding,) = bs.verify(made(forward, backward(False)), *inputs).findings
    assert finding.code == "BS416"
    assert f"with {factor}" in finding.title and "as an extra factor in the derivative of" in finding.title


@pytest.mark.parametrize(("forward", "backward", "inputs"), [case[:3] for case in CASES])
def test_the_right_one_beside_it(forward: Any, backward: Any, inputs: Any) -> None:
    assert bs.verify(made(forward, backward(True)), *inputs).ok
