# code: BS203
# variable: loss
# cause: codes = torch.round(x * 8).long()
# fix: without .detach()
"""Stages of a list, one after the other: one makes integers, and the one before it detaches."""

import torch
from torch import nn

torch.manual_seed(0)


class Lift(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.lin = nn.Linear(width, width)

    def forward(self, x):
        return torch.sigmoid(self.lin(x))


class Frozen(nn.Module):
    def forward(self, x):
        return x.detach() - x.detach().mean(1, keepdim=True)


class Quantise(nn.Module):
    def forward(self, x):
        codes = torch.round(x * 8).long()
        return codes.float() / 8


class Codec(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.stages = nn.ModuleList([Lift(width), Frozen(), Quantise()])

    def forward(self, x):
        for stage in self.stages:
            x = stage(x)
        return x


codec = Codec(6)
opt = torch.optim.Adam(codec.parameters())
for _ in range(2):
    x = torch.rand(4, 6)
    loss = (codec(x) - x).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
