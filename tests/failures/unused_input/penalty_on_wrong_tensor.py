# code: BS204
# variable: mixed
# cause: score = critic(mixed.detach())
# fix: detach
import torch
from torch import nn

critic = nn.Sequential(nn.Linear(3, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))


def gradient_penalty(real, fake):
    a = torch.rand(len(real), 1)
    mixed = (a * real + (1 - a) * fake).requires_grad_()
    score = critic(mixed.detach())
    (gradient,) = torch.autograd.grad(score.sum(), mixed, create_graph=True)
    return ((gradient.norm(dim=1) - 1) ** 2).mean()


gradient_penalty(torch.randn(4, 3), torch.randn(4, 3)).backward()
