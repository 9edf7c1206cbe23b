"""Models and steps that the tests profile, and questions that they ask of a profile."""

from __future__ import annotations

import torch
from torch import nn

from backsight.profiling import Profile, Row


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone() * 2

    @staticmethod
    def backward(ctx, grad):
        return grad.clone() * 2


class Net(nn.Module):
    """Two linear layers with names of their own, and a sum in the model itself."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(6, 8)
        self.second = nn.Linear(8, 3)

    def forward(self, x):
        return self.second(self.first(x).tanh()).sum()


def batch() -> torch.Tensor:
    return torch.linspace(-1, 1, 24).reshape(4, 6)


def row(times: Profile, op: str, module: str | None = None) -> Row:
    """Return the only row of this node, of one module if that is given."""
    found = [r for r in times.rows if r.op == op and (module is None or r.module == module)]
    assert len(found) == 1, [(r.op, r.module) for r in times.rows]
    return found[0]


def ops(times: Profile) -> set[tuple[str, str | None]]:
    return {(r.op, r.module) for r in times.rows}
