"""A derivative with another tensor in it, over other entries, on one way alone, or with a factor for each column."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from test_verify_steps import made, normal
from torch.nn import functional as F

import backsight as bs

SRC = torch.tensor([0, 1, 2, 3, 4, 0, 2, 4])
DST = torch.tensor([1, 2, 3, 4, 0, 3, 0, 1])
SEGMENT = torch.tensor([0, 0, 1, 1, 1, 2, 3, 3])
x, w, edges = normal(5, 3), normal(8).sigmoid(), normal(8, 3)
square = normal(4, 4) + 4 * torch.eye(4)
lower = square.tril()


def aggregated(w: torch.Tensor, x: torch.Tensor, src: torch.Tensor, dst: torch.Tensor) -> torch.Tensor:
    return torch.zeros_like(x).index_add_(0, dst, w[:, None] * x[src])


def aggregated_back(at: str) -> Callable[..., Any]:
    def backward(g: torch.Tensor, w: torch.Tensor, x: torch.Tensor, src: torch.Tensor, dst: torch.Tensor) -> Any:
        of_x = torch.zeros_like(x).index_add_(0, src, w[:, None] * g[dst])
        return (g[dst] * x[src if at == "src" else dst]).sum(-1), of_x, None, None

    return backward


def distances(x: torch.Tensor, src: torch.Tensor, dst: torch.Tensor) -> torch.Tensor:
    return (x[src] * x[dst].sin()).sum(-1)


def distances_back(right: bool) -> Callable[..., Any]:
    def backward(g: torch.Tensor, x: torch.Tensor, src: torch.Tensor, dst: torch.Tensor) -> Any:
        a, b = g[:, None] * x[dst].sin(), g[:, None] * x[src] * x[dst].cos()
        return torch.zeros_like(x).index_add_(0, src if right else dst, a).index_add_(0, dst, b), None, None

    return backward


def gathered(x: torch.Tensor, at: torch.Tensor, to: torch.Tensor) -> torch.Tensor:
    return x.gather(0, at).square() + 0 * to


def gathered_back(right: bool) -> Callable[..., Any]:
    def backward(g: torch.Tensor, x: torch.Tensor, at: torch.Tensor, to: torch.Tensor) -> Any:
        return torch.zeros_like(x).scatter_add_(0, at if right else to, 2 * g * x.gather(0, at)), None, None

    return backward


def solved(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.linalg.solve(a, b)


def solved_back(output: bool) -> Callable[..., Any]:
    def backward(g: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> Any:
        of_b = torch.linalg.solve(a.mT, g)
        return -of_b @ (solved(a, b) if output else b).mT, of_b

    return backward


def triangular(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.linalg.solve_triangular(a, b, upper=False)


def triangular_back(output: bool) -> Callable[..., Any]:
    def backward(g: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> Any:
        of_b = torch.linalg.solve_triangular(a.mT, g, upper=True)
        return (-of_b @ (triangular(a, b) if output else b).mT).tril(), of_b

    return backward


def divided_back(output: bool) -> Callable[..., Any]:
    def backward(g: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> Any:
        return g / b, -g * (a / b if output else a) / b

    return backward


def gated(x: torch.Tensor) -> torch.Tensor:
    a, b = x.chunk(2, -1)
    return F.silu(a) * b


def gated_back(right: bool) -> Callable[..., Any]:
    def backward(g: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        a, b = x.chunk(2, -1)
        s = a.sigmoid()
        return torch.cat([g * b * s * (1 + a * (1 - (s if right else a * s))), g * a * s], -1)

    return backward


def mish_back(right: bool) -> Callable[..., Any]:
    def backward(g: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        t = F.softplus(x).tanh()
        return g * (t + x * (1 - t * (t if right else x * t)) * x.sigmoid())

    return backward


def gelu_back(right: bool) -> Callable[..., Any]:
    def backward(g: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        inner = 0.7978845608028654 * (x + 0.044715 * x**3)
        t = inner.tanh()
        slope = 0.7978845608028654 * (1 + 3 * 0.044715 * x * x)
        return g * (0.5 * (1 + t) + 0.5 * x * (1 - t * (t if right else inner)) * slope)

    return backward


def of_segments(values: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    return values.new_zeros(4, values.shape[1]).index_add(0, at, values)[at]


def softmax_of_segments(x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    largest = x.new_full((4, x.shape[1]), -9e9).scatter_reduce(0, at[:, None].expand_as(x), x, "amax")
    powers = (x - largest[at]).exp()
    return powers / of_segments(powers, at)


def softmax_of_segments_back(right: bool) -> Callable[..., Any]:
    def backward(g: torch.Tensor, x: torch.Tensor, at: torch.Tensor) -> Any:
        y = softmax_of_segments(x, at)
        sums = of_segments(g * y, at) if right else (g * y).sum(0, keepdim=True)
        return y * (g - sums), None

    return backward


def centered_in_segments(x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    return (x - of_segments(x, at) / of_segments(torch.ones_like(x), at)).square()


def centered_in_segments_back(right: bool) -> Callable[..., Any]:
    def backward(g: torch.Tensor, x: torch.Tensor, at: torch.Tensor) -> Any:
        count = of_segments(torch.ones_like(x), at)
        d = 2 * g * (x - of_segments(x, at) / count)
        return d - (of_segments(d, at) / count if right else d.mean(0, keepdim=True)), None

    return backward


def centered(x: torch.Tensor) -> torch.Tensor:
    return (x - x.mean(1, keepdim=True)).sin()


def centered_back(dim: int) -> Callable[..., Any]:
    def backward(g: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        d = g * (x - x.mean(1, keepdim=True)).cos()
        return d - d.mean(dim, keepdim=True)

    return backward


def log_of_sums(x: torch.Tensor) -> torch.Tensor:
    largest = x.max(dim=-1, keepdim=True).values
    return (x - largest).exp().cumsum(-1).log() + largest


def log_of_sums_back(inclusive: bool) -> Callable[..., Any]:
    def backward(g: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        s = g * (-log_of_sums(x)).exp()
        return x.exp() * (s.sum(-1, keepdim=True) - s.cumsum(-1) + (s if inclusive else 0))

    return backward


def running(x: torch.Tensor) -> torch.Tensor:
    return x.sin().cumsum(1)


def running_back(way: str) -> Callable[..., Any]:
    def backward(g: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        sums = {
            "right": g.flip(1).cumsum(1).flip(1),
            "after": g.flip(1).cumsum(1).flip(1) - g,
            "before": g.cumsum(1) - g,
        }
        return sums[way] * x.cos()

    return backward


def rms(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * weight


def rms_back(right: bool) -> Callable[..., Any]:
    def backward(g: torch.Tensor, x: torch.Tensor, weight: torch.Tensor) -> Any:
        root = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
        normal = x * root
        part = (g * weight if right else g) * normal
        return root * (g * weight - normal * part.mean(-1, keepdim=True)), (g * normal).sum(0)

    return backward


def attended(x: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    y = x.tanh()
    return (y * y.exp()) * v


def attended_back(right: bool) -> Callable[..., Any]:
    def backward(g: torch.Tensor, x: torch.Tensor, v: torch.Tensor) -> Any:
        y = x.tanh()
        through = y.exp() * v + y * y.exp() * (v if right else 1)
        return g * through * (1 - y * y), g * y * y.exp()

    return backward


def pixels(grid: torch.Tensor) -> torch.Tensor:
    across, down = (grid[:, 0] + 1) * 0.5 * 6, (grid[:, 1] + 1) * 0.5 * 5
    return (across * down).sin()


def pixels_back(width: float, height: float) -> Callable[..., Any]:
    def backward(g: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
        across, down = (grid[:, 0] + 1) * 3, (grid[:, 1] + 1) * 2.5
        d = g * (across * down).cos()
        return torch.stack([d * down * width / 2, d * across * height / 2], -1)

    return backward


def waves(x: torch.Tensor) -> torch.Tensor:
    return x.sin() + x.exp() + x.cosh()


def waves_back(first: float, second: float) -> Callable[..., Any]:
    return lambda g, x: g * (first * x.cos() + second * x.exp() + x.sinh())


G, AT, TO = normal(8, 3), SEGMENT[:, None].expand(8, 3), SEGMENT[[2, 5, 0, 7, 1, 3, 6, 4]][:, None].expand(8, 3)

WRONG: list[tuple[str, Any, Any, tuple[Any, ...], str]] = [
    (
        "BS405",
        aggregated,
        aggregated_back("dst"),
        (w.requires_grad_(), x.clone().requires_grad_(), SRC, DST),
        "gradient of `x` with `more[2]` in place of `more[1]` in the derivative of the product in",
    ),
    (
        "BS405",
        distances,
        distances_back(right=False),
        (x, SRC, DST),
        "with `more[1]` in place of `more[0]` in the derivative of the first indexing in",
    ),
    (
        "BS405",
        gathered,
        gathered_back(right=False),
        (edges, AT, TO),
        "with `more[1]` in place of `more[0]` in the derivative of gather in",
    ),
    (
        "BS416",
        solved,
        solved_back(output=False),
        (square.requires_grad_(), normal(4, 2)),
        "with `more[0]` in place of the output in the derivative of linalg_solve in",
    ),
    (
        "BS416",
        triangular,
        triangular_back(output=False),
        (lower.detach().requires_grad_(), normal(4, 2)),
        "with `more[0]` in place of the output in the derivative of linalg_solve_triangular in",
    ),
    (
        "BS416",
        gated,
        gated_back(right=False),
        (normal(5, 8),),
        "with the result of silu in `return F.silu(a) * b` in place of the output in the derivative of the sigmoid "
        "inside silu in",
    ),
    (
        "BS416",
        F.mish,
        mish_back(right=False),
        (normal(5, 4),),
        "in place of the output in the derivative of the tanh inside mish in",
    ),
    (
        "BS416",
        lambda x: F.gelu(x, approximate="tanh"),
        gelu_back(right=False),
        (normal(5, 4),),
        "in place of the output in the derivative of the tanh inside gelu in",
    ),
    (
        "BS406",
        softmax_of_segments,
        softmax_of_segments_back(right=False),
        (edges, SEGMENT),
        "with a sum over dimension 0 in the derivative of the quotient in",
    ),
    (
        "BS406",
        centered_in_segments,
        centered_in_segments_back(right=False),
        (edges, SEGMENT),
        "with a mean over dimension 0 in the derivative of the difference in",
    ),
    (
        "BS406",
        centered,
        centered_back(0),
        (edges,),
        "with a mean over dimension 0 in the derivative of the difference in",
    ),
    ("BS405", log_of_sums, log_of_sums_back(inclusive=False), (normal(2, 7),), "as if cumsum in"),
    ("BS405", running, running_back("after"), (edges,), "as if cumsum in `return x.sin().cumsum(1)` left out"),
    ("BS405", running, running_back("before"), (edges,), "with a sum up to the entry before in the derivative of"),
    (
        "BS416",
        rms,
        rms_back(right=False),
        (normal(4, 6).requires_grad_(), 1 + 0.7 * normal(6)),
        "were 1, on the path through the second operand of the first product in",
    ),
    (
        "BS416",
        attended,
        attended_back(right=False),
        (normal(4, 6).requires_grad_(), 1 + 0.7 * normal(6)),
        "were 1, not `v`, on the path through the second operand of",
    ),
    ("BS404", pixels, pixels_back(7, 6), (normal(9, 2),), "were 6/5 times what it is, and that of "),
    (
        "BS404",
        waves,
        waves_back(0.4, 1.75),
        (normal(9),),
        "as if the derivative of exp in `return x.sin() + x.exp() + x.cosh()` were 7/4 times what it is, and that of "
        "sin in",
    ),
]

RIGHT: list[tuple[Any, Any, tuple[Any, ...]]] = [
    (aggregated, aggregated_back("src"), (w.requires_grad_(), x.clone().requires_grad_(), SRC, DST)),
    (distances, distances_back(right=True), (x, SRC, DST)),
    (gathered, gathered_back(right=True), (edges, AT, TO)),
    (solved, solved_back(output=True), (square.requires_grad_(), normal(4, 2))),
    (triangular, triangular_back(output=True), (lower.detach().requires_grad_(), normal(4, 2))),
    (torch.div, divided_back(output=True), (edges.clone().requires_grad_(), normal(8, 3, seed=1))),
    (gated, gated_back(right=True), (normal(5, 8),)),
    (F.mish, mish_back(right=True), (normal(5, 4),)),
    (lambda x: F.gelu(x, approximate="tanh"), gelu_back(right=True), (normal(5, 4),)),
    (softmax_of_segments, softmax_of_segments_back(right=True), (edges, SEGMENT)),
    (centered_in_segments, centered_in_segments_back(right=True), (edges, SEGMENT)),
    (centered, centered_back(1), (edges,)),
    (log_of_sums, log_of_sums_back(inclusive=True), (normal(2, 7),)),
    (running, running_back("right"), (edges,)),
    (rms, rms_back(right=True), (normal(4, 6).requires_grad_(), 1 + 0.7 * normal(6))),
    (attended, attended_back(right=True), (normal(4, 6).requires_grad_(), 1 + 0.7 * normal(6))),
    (pixels, pixels_back(6, 5), (normal(9, 2),)),
    (waves, waves_back(1, 1), (normal(9),)),
]


@pytest.mark.parametrize(("code", "forward", "backward", "inputs", "title"), WRONG, ids=[row[4] for row in WRONG])
def test_what_a_derivative_was_computed_with_is_told(
    code: str, forward: Any, backward: Any, inputs: Any, title: str
) -> None:
    (finding,) = bs.verify(made(forward, backward), *inputs).findings
    assert finding.code == code
    assert title in finding.title


@pytest.mark.parametrize(("forward", "backward", "inputs"), RIGHT)
def test_the_right_ones_beside_them_are_not_accused(forward: Any, backward: Any, inputs: Any) -> None:
    assert bs.verify(made(forward, backward), *inputs).ok


def test_what_fits_at_one_point_alone_is_not_told() -> None:
    """Of many candidates one may fit the two numbers of a scalar by chance; it does not fit beside."""
    wrong = made(lambda x: (x.sin() + x.exp()).sum(), lambda g, x: g * (x.cosh() - x))
    assert [each.code for each in bs.verify(wrong, normal(2)).findings] == ["BS400"]
