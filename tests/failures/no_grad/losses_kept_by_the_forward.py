# code: BS203
# variable: loss
# cause: self.losses["sparse"] = h.abs().mean().item()
# fix: write `self.losses["sparse"] = h.abs().mean()`, without .item()
"""A forward that keeps its losses in the model: one as a number, the other detached; a method adds them up."""

import torch
from torch import nn

torch.manual_seed(0)


class Sparse(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)
        self.losses = {}

    def forward(self, x):
        h = torch.relu(self.lin(x))
        self.losses["sparse"] = h.abs().mean().item()
        self.losses["fit"] = (h - x).square().mean().detach()
        return h

    def total(self):
        return sum(self.losses.values())


model = Sparse()
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    model(torch.randn(5, 4))
    loss = model.total()
    opt.zero_grad()
    loss.backward()
    opt.step()
