"""The Jacobian of a step that normalizes, its diagonal alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from test_verify_steps import made, normal

import backsight as bs


def mixed(logits: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    top, at = logits.topk(3, dim=-1)
    chosen = values.gather(1, at[..., None].expand(-1, -1, values.shape[-1]))
    return torch.einsum("nk,nkd->nd", top.softmax(-1), chosen)


def mixed_back(whole: bool) -> Callable[..., Any]:
    def backward(g: torch.Tensor, logits: torch.Tensor, values: torch.Tensor) -> Any:
        top, at = logits.topk(3, dim=-1)
        p, index = top.softmax(-1), at[..., None].expand(-1, -1, values.shape[-1])
        of_p = torch.einsum("nd,nkd->nk", g, values.gather(1, index))
        of_top = p * (of_p - (of_p * p).sum(-1, keepdim=True)) if whole else of_p * p * (1 - p)
        of_values = torch.zeros_like(values).scatter(1, index, p[..., None] * g[:, None])
        return torch.zeros_like(logits).scatter(1, at, of_top), of_values

    return backward


def by_hand(x: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    e = x.exp()
    return (e / e.sum(-1, keepdim=True)) @ v


def by_hand_back(whole: bool) -> Callable[..., Any]:
    def backward(g: torch.Tensor, x: torch.Tensor, v: torch.Tensor) -> Any:
        p, of_p = x.softmax(-1), g @ v.mT
        return p * (of_p - (of_p * p).sum(-1, keepdim=True)) if whole else of_p * p * (1 - p), p.mT @ g

    return backward


def rms(x: torch.Tensor) -> torch.Tensor:
    return (x * (x.square().mean(-1, keepdim=True) + 0.1).rsqrt()).sin()


def rms_back(whole: bool) -> Callable[..., Any]:
    def backward(g: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        r = (x.square().mean(-1, keepdim=True) + 0.1).rsqrt()
        g = g * (x * r).cos()
        if whole:
            return r * g - x * r**3 * (g * x).mean(-1, keepdim=True)
        return g * (r - x**2 * r**3 / x.shape[-1])

    return backward


def layer(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.layer_norm(x, x.shape[-1:]) @ w


def layer_back(whole: bool) -> Callable[..., Any]:
    def backward(g: torch.Tensor, x: torch.Tensor, w: torch.Tensor) -> Any:
        n, y, of_y = x.shape[-1], torch.nn.functional.layer_norm(x, x.shape[-1:]), g @ w.mT
        r = (x.var(-1, unbiased=False, keepdim=True) + 1e-5).rsqrt()
        sums = of_y.mean(-1, keepdim=True) + y * (of_y * y).mean(-1, keepdim=True)
        return r * (of_y - sums) if whole else r * of_y * (1 - 1 / n - y**2 / n), y.mT @ g

    return backward


def grad(*shape: int, seed: int = 0) -> torch.Tensor:
    return normal(*shape, seed=seed).clone().requires_grad_()


CASES = [
    (mixed, mixed_back, (grad(6, 5), grad(6, 5, 3, seed=1)), "softmax in"),
    (by_hand, by_hand_back, (grad(3, 4), grad(4, 3, seed=1)), "the quotient in"),
    (rms, rms_back, (grad(4, 6),), "the product in"),
    (layer, layer_back, (grad(4, 6), grad(6, 3, seed=1)), "layer_norm in"),
]


@pytest.mark.parametrize(("forward", "backward", "inputs", "step"), CASES)
def test_cross_terms_that_are_missing(forward: Any, backward: Any, inputs: Any, step: str) -> None:
    (finding,) = bs.verify(made(forward, backward(False)), *inputs).findings
    assert finding.code == "BS415"
    assert f"as if each output entry of {step}" in finding.title


@pytest.mark.parametrize(("forward", "backward", "inputs"), [case[:3] for case in CASES])
def test_cross_terms_that_are_there(forward: Any, backward: Any, inputs: Any) -> None:
    assert bs.verify(made(forward, backward(True)), *inputs).ok
