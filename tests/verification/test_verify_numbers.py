"""Numbers of forward that are elsewhere in backward: an eps, a bound, a mask."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from test_verify_steps import made, normal
from torch.nn import functional as F

import backsight as bs

EPS = 0.01
VALUES = torch.linspace(-5, 5, 24).reshape(4, 6) + 0.013


def centered(x: torch.Tensor) -> torch.Tensor:
    return x - x.mean(-1, keepdim=True)


def root(x: torch.Tensor) -> torch.Tensor:
    return x.var(-1, unbiased=False, keepdim=True).sqrt()


def outside(x: torch.Tensor) -> torch.Tensor:
    return centered(x) / (root(x) + EPS)


def inside(x: torch.Tensor) -> torch.Tensor:
    return centered(x) / (x.var(-1, unbiased=False, keepdim=True) + EPS).sqrt()


def normalized(g: torch.Tensor, y: torch.Tensor, deviation: torch.Tensor) -> torch.Tensor:
    return (g - g.mean(-1, keepdim=True) - y * (g * y).mean(-1, keepdim=True)) / deviation


def exact(g: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    sums = outside(x) * (g * centered(x)).mean(-1, keepdim=True) / root(x)
    return (g - g.mean(-1, keepdim=True) - sums) / (root(x) + EPS)


def dice(p: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
    return (2 * (p * t).sum() + 1.0) / (p.sum() + t.sum() + 1.0)


def dice_without(g: torch.Tensor, p: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
    both, sums = (p * t).sum(), p.sum() + t.sum()
    return g * (2 * t * sums - 2 * both) / sums**2


NUMBERS = [
    (
        outside,
        lambda g, x: normalized(g, inside(x), (x.var(-1, unbiased=False, keepdim=True) + EPS).sqrt()),
        (normal(4, 6),),
        "as if forward added 0.01 before sqrt, and not after it",
    ),
    (
        outside,
        lambda g, x: normalized(g, outside(x), (x.var(-1, unbiased=False, keepdim=True) + EPS).sqrt()),
        (normal(4, 6),),
        "as if forward added 0.01 before sqrt, and not after it",
    ),
    (
        outside,
        lambda g, x: normalized(g, outside(x), root(x) + EPS),
        (normal(4, 6),),
        "in place of the output in the derivative of sqrt in",
    ),
    (
        inside,
        lambda g, x: normalized(g, inside(x), root(x) + EPS),
        (normal(4, 6),),
        "as if forward added 0.01 after sqrt, and not before it",
    ),
    (
        lambda x: (x * x + EPS).sqrt().exp(),
        lambda g, x: g * (x * x + EPS).sqrt().exp() * x / (x.abs() + EPS),
        (normal(9),),
        "with 0.01 added after sqrt, and not before it, in its derivative",
    ),
    (
        lambda x: 1 / (x + EPS).sqrt(),
        lambda g, x: -0.5 * g / (x.sqrt() + EPS) ** 3,
        (normal(7).abs() + 0.1,),
        "as if forward added 0.01 after sqrt, and not before it",
    ),
    (
        lambda x: (x + EPS).log(),
        lambda g, x: g / x,
        (normal(7).abs() + 0.1,),
        "as if forward did not add 0.01 in the sum in `lambda x: (x + EPS).log()`",
    ),
    (dice, dice_without, (normal(6).sigmoid().requires_grad_(), (normal(6) > 0).float()), "did not add 1 in the first"),
    (
        lambda x: x.clamp_min(0.2).log(),
        lambda g, x: g / (x + 0.2),
        (normal(9).sigmoid(),),
        "as if forward added 0.2 in place of clamp_min",
    ),
]

BOUNDS = [
    (
        lambda x: x * (x + 3).clamp(0, 6) / 6,
        lambda g, x: g * torch.where(x > -3, (2 * x + 3) / 6, 0.0),
        (VALUES,),
        "as if clamp in `lambda x: x * (x + 3).clamp(0, 6) / 6` had no upper bound",
    ),
    (
        F.hardswish,
        lambda g, x: g * torch.where(x < 3, (2 * x + 3) / 6, 1.0),
        (VALUES,),
        "as if the clamp inside hardswish in `return forward(x, *more)` had no lower bound",
    ),
    (lambda x: F.relu6(x) ** 2, lambda g, x: 2 * g * F.relu6(x) * (x > 0), (2 * VALUES,), "had no upper bound"),
    (F.hardtanh, lambda g, x: g * (x < 1), (VALUES,), "had no lower bound"),
    (lambda x: x.tril().square(), lambda g, x: (2 * g * x).tril(-1), (normal(5, 5),), "as if tril in"),
    (
        lambda x, w: torch.where(w > 0, x * w, x),
        lambda g, x, w: (torch.where(x > 0, g * w, g), torch.where(w > 0, g * x, 0.0)),
        (normal(12), normal(12, seed=5)),
        "with another mask for where in `lambda x, w: torch.where(w > 0, x * w, x)` than forward has",
    ),
]


@pytest.mark.parametrize(("forward", "backward", "inputs", "title"), [*NUMBERS, *BOUNDS])
def test_a_number_that_is_elsewhere_is_told(forward: Any, backward: Any, inputs: Any, title: str) -> None:
    (finding,) = bs.verify(made(forward, backward), *inputs).findings
    assert title in finding.title


def test_the_tensor_that_a_wrong_mask_is_made_of_is_named() -> None:
    forward, backward, inputs, _ = BOUNDS[-1]
    (finding,) = bs.verify(made(forward, backward), *inputs).findings
    assert finding.evidence[0].endswith("It is open where `x` is positive.")


def test_where_a_mask_is_wrong_is_told_by_the_values_there() -> None:
    wrong = made(
        lambda x: torch.where(x.abs() < 0.5, x * x, x.abs() - 0.25),
        lambda g, x: g * torch.where(x.abs() < 1, 2 * x, x.sign()),
    )
    (finding,) = bs.verify(wrong, torch.linspace(-2, 2, 21)).findings
    assert finding.evidence[0] == (
        "With the mask flipped at 4 of 21 entries, where |x| lies between 0.6 and 0.8, the returned gradient is "
        "reproduced."
    )


@pytest.mark.parametrize(
    ("forward", "backward", "inputs"),
    [
        (outside, exact, (normal(4, 6),)),
        (inside, lambda g, x: normalized(g, inside(x), inside_root(x)), (normal(4, 6),)),
        (F.hardtanh, lambda g, x: g * (x.abs() <= 1), (VALUES,)),
        (lambda x: x.tril().square(), lambda g, x: (2 * g * x).tril(), (normal(5, 5),)),
    ],
)
def test_their_right_neighbors_are_not_accused(forward: Any, backward: Any, inputs: Any) -> None:
    assert bs.verify(made(forward, backward), *inputs).ok


def inside_root(x: torch.Tensor) -> torch.Tensor:
    return (x.var(-1, unbiased=False, keepdim=True) + EPS).sqrt()
