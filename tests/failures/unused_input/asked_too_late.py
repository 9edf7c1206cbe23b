# code: BS204
# variable: mixed
# cause: score = critic(mixed.detach())
# fix: put `mixed.requires_grad_()` above line 14
import torch
from torch import nn

critic = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))


def penalty(real, fake):
    share = torch.rand(len(real), 1)
    mixed = share * real + (1 - share) * fake
    score = critic(mixed.detach())
    mixed.requires_grad_(True)
    slope = torch.autograd.grad(score.sum(), mixed, create_graph=True)[0]
    return (slope.norm(dim=1) - 1).square().mean()


penalty(torch.randn(8, 2), torch.randn(8, 2)).backward()
