# code: BS204
# variable: flat
# cause: slope = torch.autograd.grad(judge(mixed).sum(), flat, create_graph=True)[0]
# fix: write `slope = torch.autograd.grad(judge(mixed).sum(), mixed, create_graph=True)[0].flatten(1)
import torch
from torch import nn

torch.manual_seed(0)
judge = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Tanh(), nn.Flatten(), nn.Linear(64, 1))
optimizer = torch.optim.Adam(judge.parameters())


def penalty(real, fake):
    part = torch.rand(len(real), 1, 1, 1)
    mixed = (part * real + (1 - part) * fake).requires_grad_()
    flat = mixed.flatten(1)
    slope = torch.autograd.grad(judge(mixed).sum(), flat, create_graph=True)[0]
    return (slope.norm(dim=1) - 1).square().mean()


for _ in range(3):
    loss = penalty(torch.randn(5, 1, 6, 6), torch.randn(5, 1, 6, 6))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
