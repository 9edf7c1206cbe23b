"""A factor is told apart from a size: the Function is tried at other sizes, and what holds at one alone is not said."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import fresh
import pytest
import torch
from columns import COLUMNS
from test_verify_steps import made, normal
from torch.autograd import Function
from torch.nn import functional as F

import backsight as bs


class GroupNorm(Function):
    """The sums of backward are divided by all channels, and not by those of a group."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, groups: int, own: bool = True) -> torch.Tensor:
        rows = x.reshape(x.shape[0], groups, -1)
        mean = rows.mean(-1, keepdim=True)
        deviation = (rows.var(-1, unbiased=False, keepdim=True) + 1e-5).sqrt()
        y = (rows - mean) / deviation
        ctx.save_for_backward(y, deviation)
        ctx.count = y.shape[-1] if own is False else x[0].numel()
        ctx.shape = x.shape
        return y.reshape(x.shape)

    @staticmethod
    def backward(ctx: Any, grad_output: torch.Tensor) -> Any:
        y, deviation = ctx.saved_tensors
        g = grad_output.reshape(y.shape)
        sums = g.sum(-1, keepdim=True) + y * (g * y).sum(-1, keepdim=True)
        return ((g - sums / ctx.count) / deviation).reshape(ctx.shape), None, None


def pairs(x: torch.Tensor) -> torch.Tensor:
    n = x.shape[0]
    return (x[:, None] - x).square().sum() / (n * (n - 1) / 2)


FACTORS: list[tuple[Any, tuple[Any, ...], str]] = [
    (
        made(lambda x: x.mean(-1), lambda g, x: g[:, None].expand_as(x)),
        (normal(5, 2),),
        "It is multiplied by 2, the number of entries along dimension 1 of the input: a sum where the mean belongs?",
    ),
    (
        made(lambda x: F.avg_pool1d(x, 2), lambda g, x: g.repeat_interleave(2, -1)),
        (normal(2, 3, 8),),
        "The factor stays the same at other sizes, so it is not a size.",
    ),
    (
        made(lambda x: (x**2).sum(-1), lambda g, x: g[:, None] * x),
        (normal(3, 2),),
        "That is one over the exponent of the power in `lambda x: (x**2).sum(-1)`, which is 2.",
    ),
    (
        made(lambda x: 0.5 * x.square().sum(), lambda g, x: g * 2 * x),
        (normal(2, 2),),
        "2 is the exponent of square in `lambda x: 0.5 * x.square().sum()`, and one over the number in the product in "
        "`lambda x: 0.5 * x.square().sum()`.",
    ),
    (
        made(lambda x: x.var(-1), lambda g, x: g[:, None] * 2 * (x - x.mean(-1, keepdim=True)) / x.shape[-1]),
        (normal(4, 5),),
        "The factor is (n - 1)/n, where n = 5 is the number of entries along dimension 1 of the input; this also "
        "holds for other sizes.",
    ),
    (
        made(pairs, lambda g, x: g * 4 * (x.shape[0] * x - x.sum())),
        (normal(6),),
        "The factor is n(n - 1)/2, where n = 6 is the number of entries along dimension 0 of the input; this also "
        "holds for other sizes.",
    ),
    (
        made(lambda x: x.exp().mean((1, 2)), lambda g, x: g[:, None, None] * x.exp() / x.numel()),
        (normal(3, 4, 5),),
        "It is divided by 3, the number of entries along dimension 0 of the input: a mean where the sum belongs?",
    ),
    (
        made(lambda x: x.sin() + x.std(-1, keepdim=True), lambda g, x: g * x.cos() + spread(g, x)),
        (normal(4, 6),),
        "The factor is (n - 1)/n, where n = 6 is the number of entries along dimension 1 of the input; this also "
        "holds for other sizes.",
    ),
    (GroupNorm, (normal(3, 6, 4), 2), "The factor is 1/n, where n = 2 is `groups`; this also holds for other values."),
]


def spread(g: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    centered = x - x.mean(-1, keepdim=True)
    return g.sum(-1, keepdim=True) * centered / x.std(-1, keepdim=True) / x.shape[-1]


@pytest.mark.parametrize(("function", "inputs", "told"), FACTORS)
def test_what_a_factor_is(function: Any, inputs: Any, told: str) -> None:
    (finding,) = bs.verify(function, *inputs).findings
    assert finding.code == "BS404"
    said = finding.evidence[-1]
    if not COLUMNS:
        said, told = re.sub(r"on line \d+", "there", said), re.sub("in `lambda .*?`", "there", told)
    assert said == told


def test_a_group_norm_that_divides_by_its_own_count_is_right() -> None:
    assert bs.verify(GroupNorm, normal(3, 6, 4), 2, False).ok


def test_sizes_that_a_function_refuses_are_said_to_be_equal_only() -> None:
    def forward(x: torch.Tensor) -> torch.Tensor:
        if x.shape != (3, 2):
            raise ValueError("made for 3 pairs")
        return x.mean(-1)

    (finding,) = bs.verify(made(forward, lambda g, x: g[:, None].expand_as(x)), normal(3, 2)).findings
    assert finding.evidence[-1] == (
        "2 is also the number of entries along dimension 1 of the input; whether that is the reason could not be tried."
    )


UNCHECKED = """
import torch
import backsight as bs

class Norm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        statistics = torch.zeros(5, dtype=x.dtype), torch.ones(5, dtype=x.dtype)
        y, mean, inverse = torch.native_batch_norm(x, scale, None, *statistics, True, 0.1, 1e-5)
        print("ran", *x.shape)
        ctx.save_for_backward(x, scale, mean, inverse)
        return y

    @staticmethod
    def backward(ctx, g):
        x, scale, mean, inverse = ctx.saved_tensors
        rest = None, None, mean, inverse, True, 1e-5, [True, True, False]
        found = torch.ops.aten.native_batch_norm_backward(g, x, scale, *rest)
        return 2 * found[0], found[1]

print(bs.verify(Norm, torch.randn(4, 5, 3), torch.randn(5)).findings[0].code)
"""


def test_sizes_that_a_kernel_does_not_check_are_not_tried(tmp_path: Path) -> None:
    done = fresh.run([sys.executable, "-c", UNCHECKED], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    *ran, told = done.stdout.splitlines()
    assert told == "BS404"
    assert {line.split()[2] for line in ran} == {"5"}, "statistics of 5 channels, and more channels"
    assert {"ran 4 5 3", "ran 8 5 3", "ran 4 5 6"} <= set(ran)


def huber(of_w: Any) -> Any:
    def backward(g: torch.Tensor, x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = x @ w.T
        d = g * y / torch.sqrt(1 + y**2)
        return d @ w, of_w(d, x)

    return made(lambda x, w: torch.sqrt(1 + (x @ w.T) ** 2) - 1, backward)


class Huber(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, w)
        return torch.sqrt(1 + (x @ w.T) ** 2) - 1

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        x, w = ctx.saved_tensors
        y = x @ w.T
        d = g * y / torch.sqrt(1 + y**2)
        return d @ w, d.T @ x / len(x)


class Averaged(Huber):
    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        x, w = ctx.saved_tensors
        y = x @ w.T
        d = g * y / torch.sqrt(1 + y**2)
        return d @ w, (d[:, :, None] * x[:, None]).mean(0)


DIVIDED = "It is divided by 5, the number of entries along dimension 0 of the output: a mean where the sum belongs?"


def test_a_superfluous_factor_is_removed_where_it_stands() -> None:
    (finding,) = bs.verify(Huber.apply, normal(5, 4), normal(3, 4)).findings
    assert finding.evidence[-1] == DIVIDED
    assert re.fullmatch(r"On line \d+, remove `/ len\(x\)` from the gradient of `w`\.", finding.fix)


def test_a_mean_becomes_a_sum_where_it_stands() -> None:
    (finding,) = bs.verify(Averaged.apply, normal(5, 4), normal(3, 4)).findings
    assert re.fullmatch(r"On line \d+, write `sum` instead of `mean` in the gradient of `w`\.", finding.fix)


def test_a_size_that_is_not_found_in_the_backward_is_undone_by_its_name_and_not_by_a_number() -> None:
    (finding,) = bs.verify(huber(lambda d, x: d.T @ x / len(x)), normal(5, 4), normal(3, 4)).findings
    assert finding.evidence[-1] == DIVIDED
    assert finding.fix == "Multiply the gradient of `more[0]` by `grad_output.shape[0]`."


def test_a_number_that_is_right_for_one_size_is_not_undone_by_another_number() -> None:
    for_five = huber(lambda d, x: d.T @ x / len(x) * 5)
    (finding,) = bs.verify(for_five, normal(7, 4), normal(3, 4)).findings
    assert finding.title.startswith("Made.backward returns 5/7 times")
    assert finding.fix == (
        "Find what makes the gradient of `more[0]` depend on that size; a fixed number does not undo it."
    )
    (finding,) = bs.verify(for_five, normal(5, 4), normal(3, 4)).findings
    assert finding.title == "Made.backward returns 5 times the right gradient for `more[0]`, for a batch of one."
    assert "as called only: a fixed number, perhaps" in finding.fix
