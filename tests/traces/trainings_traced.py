"""A small training with nested modules, whose parts can be made otherwise."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Halved(torch.autograd.Function):
    """The identity, whose backward is right or half of that."""

    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x.clone()

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output * ctx.factor, None


class Block(nn.Module):
    def __init__(self, eps: float, order: bool):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(8, eps=eps), nn.Linear(8, 16), nn.Linear(16, 8)
        self.order = order

    def forward(self, x: Tensor) -> Tensor:
        h = self.down(torch.relu(self.up(self.norm(x))))
        return h + x if self.order else x + h


class Net(nn.Module):
    def __init__(self, eps: float = 1e-5, scale: float = 1.0, names: str = "blocks", order: bool = False, factor=1.0):
        super().__init__()
        self.names, self.scale, self.factor = names, scale, factor
        setattr(self, names, nn.ModuleList(Block(eps, order) for _ in range(2)))
        self.head = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        for block in getattr(self, self.names):
            x = block(x)
        if self.scale != 1.0:
            x = x * self.scale
        return self.head(Halved.apply(x, self.factor))


class Training:
    """Steps on fixed data."""

    def __init__(self, lr: float = 0.01, seed: int = 0, data: int = 1, model: nn.Module | None = None, **options):
        torch.manual_seed(seed)
        self.model = Net(**options) if model is None else model
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=lr)
        generator = torch.Generator().manual_seed(data)
        self.x = torch.randn(5, 8, generator=generator)
        self.y = torch.randint(0, 3, (5,), generator=generator)

    def run(self, steps: int) -> Training:
        for _ in range(steps):
            self.optimizer.zero_grad()
            self.loss = nn.functional.cross_entropy(self.model(self.x), self.y)
            self.loss.backward()
            self.optimizer.step()
        return self

    def bits(self) -> list[Tensor]:
        states = [each for state in self.optimizer.state.values() for each in state.values()]
        return [*self.model.state_dict().values(), *states, torch.rand(3)]
