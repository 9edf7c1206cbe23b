"""What optimizers do not move, by the samples that are kept of each parameter."""

from __future__ import annotations

import gc

import pytest
import torch
from torch import nn

from backsight.tracing.moves import Moves


def test_samples_are_not_among_the_tensors_that_the_collector_lists() -> None:
    def listed() -> int:
        gc.collect()
        return sum(issubclass(type(each), torch.Tensor) for each in gc.get_objects())

    parameter = nn.Parameter(torch.ones(3))
    parameter.grad = torch.ones(3)
    optimizer = torch.optim.SGD([parameter], lr=0.0)
    moves, before = Moves(), listed()
    for step in range(1, 9):
        moves.stepped(optimizer)
        assert listed() == before, step
    assert [each.parameter is parameter for each in moves.unmoved(optimizer)] == [True]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64])
def test_a_parameter_of_any_type_is_told_to_have_stayed_or_moved(dtype: torch.dtype) -> None:
    stays, moves_on = (nn.Parameter(torch.ones(300, dtype=dtype)) for _ in range(2))
    optimizer = torch.optim.SGD([stays, moves_on], lr=0.0)
    moves = Moves()
    for _ in range(16):
        stays.grad, moves_on.grad = torch.ones(300, dtype=dtype), torch.ones(300, dtype=dtype)
        moves_on.data.add_(1)
        moves.stepped(optimizer)
    assert [each.parameter is stays for each in moves.unmoved(optimizer)] == [True]


def test_a_gradient_that_is_rounding_beside_another_does_not_count() -> None:
    pulled, unpulled = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([pulled, unpulled], lr=0.0)
    moves = Moves()
    for _ in range(8):
        pulled.grad, unpulled.grad = torch.ones(3), torch.full((3,), 1e-7)
        optimizer.step()
        moves.stepped(optimizer)
    assert [each.parameter is pulled for each in moves.unmoved(optimizer)] == [True]
