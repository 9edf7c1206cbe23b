# code: BS205
# variable: x
# cause: x += 0.01 * torch.randn_like(x)
# fix: x + (0.01 * torch.randn_like(x))
import torch
from torch import nn

critic = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))


def langevin(x, steps):
    x.requires_grad_()
    for _ in range(steps):
        (gradient,) = torch.autograd.grad(critic(x).sum(), x)
        x += 0.01 * torch.randn_like(x)
        x = x - 0.1 * gradient
    return x


langevin(torch.randn(3, 4), steps=2)
