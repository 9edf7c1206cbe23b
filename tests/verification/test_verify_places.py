"""Gradients that are sent to the wrong place: strides, windows, kernels, copies, orders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from test_verify_steps import made, normal
from torch.nn import functional as F

import backsight as bs

KERNEL = torch.tensor([1.0, -2.0, 0.5])


def windows(x: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return x.unfold(1, 3, 2) @ k


def scattered(place: Callable[[int, int], int]) -> Callable[..., Any]:
    def backward(g: torch.Tensor, x: torch.Tensor, k: torch.Tensor) -> Any:
        of_x = torch.zeros_like(x)
        for i in range(g.shape[1]):
            for j in range(3):
                if place(i, j) < x.shape[1]:
                    of_x[:, place(i, j)] += g[:, i] * k[j]
        return of_x, (x.unfold(1, 3, 2) * g[..., None]).sum((0, 1))

    return backward


def by_hand(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    rows = [(x[:, i : i + 3, j : j + 3] * w).sum((1, 2)) for i in (0, 2, 4) for j in (0, 2, 4)]
    return torch.stack(rows, 1).reshape(-1, 3, 3)


def by_hand_without_stride(g: torch.Tensor, x: torch.Tensor, w: torch.Tensor) -> Any:
    of_x, of_w = torch.zeros_like(x), torch.zeros_like(w)
    for i in range(3):
        for j in range(3):
            of_x[:, i : i + 3, j : j + 3] += g[:, i, j, None, None] * w
            of_w += (g[:, i, j, None, None] * x[:, 2 * i : 2 * i + 3, 2 * j : 2 * j + 3]).sum(0)
    return of_x, of_w


def columns_flipped(g: torch.Tensor, x: torch.Tensor, w: torch.Tensor) -> Any:
    columns = (w.mT @ g).reshape(x.shape[0], -1, 9, g.shape[-1]).flip(2).reshape(x.shape[0], -1, g.shape[-1])
    return F.fold(columns, x.shape[-2:], 3, stride=2), (g @ F.unfold(x, 3, stride=2).mT).sum(0)


def unstrided(g: torch.Tensor, x: torch.Tensor, w: torch.Tensor) -> Any:
    of_x = F.conv_transpose1d(g, w)
    return F.pad(of_x, (0, x.shape[-1] - of_x.shape[-1])), torch.nn.grad.conv1d_weight(x, w.shape, g, stride=2)


def first(g: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return F.pad(g, (0, 0, 0, x.shape[0] - g.shape[0]))


def by_taps(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.stack([w[:, k, None] * x[..., k : x.shape[-1] - 2 + k] for k in range(3)]).sum(0)


def taps_flipped(g: torch.Tensor, x: torch.Tensor, w: torch.Tensor) -> Any:
    of_x, length = torch.zeros_like(x), g.shape[-1]
    for k in range(3):
        of_x[..., 2 - k : 2 - k + length] += w[:, k, None] * g
    return of_x, torch.stack([(g * x[..., k : k + length]).sum((0, 2)) for k in range(3)], 1)


CASES = [
    (by_taps, taps_flipped, (normal(2, 3, 8), normal(3, 3)), "from 2, 1, 0 on in its runs along dimension 2"),
    (windows, scattered(lambda i, j: i + j), (normal(2, 9), KERNEL), "as if unfold in `return x.unfold(1, 3, 2) @ k`"),
    (windows, scattered(lambda i, j: 3 * i + j), (normal(2, 9), KERNEL), "that start 3 apart along dimension 1"),
    (windows, scattered(lambda i, j: 2 * i + j + 1), (normal(2, 9), KERNEL), "shifted by one along dimension 1"),
    (windows, scattered(lambda i, j: 2 * i + 2 - j), (normal(2, 9), KERNEL), "in reverse order along dimension 2"),
    (by_hand, by_hand_without_stride, (normal(2, 7, 7), normal(3, 3)), "along dimensions 1 and 2"),
    (
        lambda x, w: w @ F.unfold(x, 3, stride=2),
        columns_flipped,
        (normal(2, 2, 7, 7), normal(4, 18)),
        "inside unfold",
    ),
    (
        lambda x, w: F.conv1d(x, w, stride=2),
        unstrided,
        (normal(2, 3, 9), normal(4, 3, 3)),
        "as if conv1d in `lambda x, w: F.conv1d(x, w, stride=2)` had 1 where it has 2",
    ),
    (lambda x: x[::2], first, (normal(8, 3),), "took its entries side by side along dimension 0"),
    (
        lambda x: x.repeat_interleave(3, 1),
        lambda g, x: g.reshape(2, 3, 4).sum(1),
        (normal(2, 4),),
        "repeated all of them in turn",
    ),
    (
        lambda a, b: torch.stack([a, b], -1).reshape(a.shape[0], -1),
        lambda g, a, b: (g[:, :4], g[:, 4:]),
        (normal(3, 4), normal(3, 4, seed=1)),
        "had 1 where it has -1",
    ),
    (lambda x: x.cumprod(0), lambda g, x: (g * x.cumprod(0)).cumsum(0) / x, (normal(5, 2).abs() + 0.5,), "cumsum"),
    (lambda x: x.sin(), lambda g, x: (g * x.cos()).flip(0), (normal(5, 2),), "in reverse order along dimension 0"),
]


@pytest.mark.parametrize(("forward", "backward", "inputs", "title"), CASES)
def test_a_gradient_in_the_wrong_place_is_told(forward: Any, backward: Any, inputs: Any, title: str) -> None:
    (finding,) = bs.verify(made(forward, backward), *inputs).findings
    assert title in finding.title


def test_a_gradient_in_the_right_place_is_not_accused() -> None:
    assert bs.verify(made(windows, scattered(lambda i, j: 2 * i + j)), normal(2, 9), KERNEL).ok


def test_a_headline_says_what_is_measured_and_not_how_often_a_step_is_applied() -> None:
    """inv(A) stands in such a backward once, and so it must; but its transpose belongs there."""
    wrong = made(torch.linalg.inv, lambda g, a: -(a.inverse() @ g @ a.inverse()))
    (finding,) = bs.verify(wrong, normal(4, 4) + 4 * torch.eye(4)).findings
    assert finding.title == (
        "Made.backward returns the gradient of `x` with the derivative of linalg_inv in `return forward(x, *more)` "
        "where its transpose belongs."
    )


def test_the_last_step_is_only_named_where_it_is_the_last_step() -> None:
    """Where forward is positive, the derivative of a ReLU would mend a lacking mask, but there is none."""
    wrong = made(
        lambda x: F.hardsigmoid(x) * x.exp(),
        lambda g, x: g * x.exp() * (F.hardsigmoid(x) + (x < 3) / 6),
    )
    (finding,) = bs.verify(wrong, torch.linspace(-5, 5, 20)).findings
    assert "as if the clamp inside hardsigmoid" in finding.title
