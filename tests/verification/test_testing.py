"""`backsight.testing`: assertions that pass where gradients are right, and explain where they are not."""

from __future__ import annotations

import sys
from pathlib import Path

import fresh
import pytest
import second_order_functions
import torch
import wrong
from torch import nn

import backsight as bs


def test_right_gradients_pass() -> None:
    bs.testing.assert_gradients_right(nn.Sequential(nn.Linear(3, 4), nn.Tanh()), torch.randn(2, 3), second_order=True)
    bs.testing.assert_gradients_right(torch.nn.functional.mse_loss, torch.randn(3), torch.randn(3), reduction="sum")


def test_a_wrong_gradient_fails_with_its_explanation() -> None:
    with pytest.raises(AssertionError) as raised:
        bs.testing.assert_gradients_right(wrong.Poly, torch.randn(4))
    text = str(raised.value)
    assert text.startswith(
        "\nbacksight: 1 of 1 operation has a wrong backward: Poly\n\nerror BS402  Poly.backward adds 2"
    )
    assert "called    tests/verification/test_testing.py" in text or "called    test_testing.py" in text


def test_a_second_derivative_fails_only_where_it_is_asked_for() -> None:
    function, x = second_order_functions.Intermediate.apply, torch.randn(4)
    bs.testing.assert_gradients_right(function, x)
    with pytest.raises(AssertionError, match="error BS420  The second derivative of Intermediate is silently wrong"):
        bs.testing.assert_gradients_right(function, x, second_order=True)


def test_a_function_of_which_nothing_can_be_tested_fails() -> None:
    with pytest.raises(AssertionError, match="backsight: nothing could be tested"):
        bs.testing.assert_gradients_right(torch.sum, torch.eye(3).to_sparse())


def test_seed_and_time_reach_both_tests_and_are_the_functions_own_where_they_are_not_given() -> None:
    seeds = []

    def wave(x: torch.Tensor, seed: torch.Tensor | None = None) -> torch.Tensor:
        seeds.append(torch.initial_seed())
        return x.sin() if seed is None else x.sin() * seed

    x = torch.randn(3)
    bs.testing.assert_gradients_right(lambda x: wave(x), x, second_order=True, seed=7)
    assert seeds == [7, 7]
    bs.testing.assert_gradients_right(wave, x, torch.tensor(2.0), second_order=True)
    with pytest.raises(TypeError, match=r"^verify\(seed=\.\.\.\) is an option of verify and also a parameter"):
        bs.testing.assert_gradients_right(wave, x, seed=3)
    with pytest.raises(AssertionError, match="nothing could be tested"):
        bs.testing.assert_gradients_right(wave, x, seconds=0.0)


PROGRAM = """
import torch, backsight as bs

class Half(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**2

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0]

def test_half():
    bs.testing.assert_gradients_right(Half.apply, torch.randn(4))
"""


def test_the_traceback_in_pytest_ends_at_the_users_line(tmp_path: Path) -> None:
    (tmp_path / "test_of_mine.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "test_of_mine.py"]
    ended = fresh.run(command, cwd=tmp_path, timeout=120)
    assert ended.returncode == 1
    assert "error BS404  Half.backward returns half the right gradient for `x`." in ended.stdout
    assert ">       bs.testing.assert_gradients_right(Half.apply, torch.randn(4))" in ended.stdout
    assert "raise AssertionError" not in ended.stdout, "frames of backsight.testing stay out of sight"
