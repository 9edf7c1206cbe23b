# code: BS203
# variable: score
# cause: score = net(start).sum().detach()
# fix: without .detach()
import torch
from torch import nn

net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))


def slope_of(x):
    with torch.enable_grad():
        start = x.clone().requires_grad_()
        score = net(start).sum().detach()
        return torch.autograd.grad(score, start)[0]


@torch.no_grad()
def saliency(batch):
    return slope_of(batch).abs().mean(0)


print(saliency(torch.randn(4, 3)))
