"""What optimizers do not move, by the samples that are kept of each parameter."""

from __future__ import annotations

import torch
from torch import nn

from backsight.tracing.moves import Moves


def test_a_gradient_that_is_rounding_beside_another_does_not_count() -> None:
    pulled, unpulled = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([pulled, unpulled], lr=0.0)
    moves = Moves()
    for _ in range(8):
        pulled.grad, unpulled.grad = torch.ones(3), torch.full((3,), 1e-7)
        optimizer.step()
        moves.stepped(optimizer)
    assert [each.parameter is pulled for each in moves.unmoved(optimizer)] == [True]
