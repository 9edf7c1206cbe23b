# code: BS202
# variable: self.model.basis
# cause: self.basis = self._basis()
# fix: line 15 of __init__ runs only once
import torch
from torch import nn


class Projection(nn.Module):
    """Multiplies by an inverse that was computed once."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(5, 5))
        self.basis = self._basis()
        self.inner = nn.Linear(5, 5)

    def _basis(self):
        return torch.linalg.inv(self.w @ self.w.T + torch.eye(5))

    def forward(self, x):
        return self.inner(x) @ self.basis


class Loop:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def fit(self, steps):
        for _ in range(steps):
            self.batch(torch.randn(3, 5))

    def batch(self, x):
        loss = self.model(x).square().mean()
        self.optimizer.zero_grad()
        loss.backward(retain_graph=True)
        self.optimizer.step()


Loop(Projection()).fit(3)
