# code: BS203
# variable: loss
# cause: @torch.no_grad()
# fix: put lines
import torch
from torch import nn


def decay(weights, amount):
    for weight in weights:
        weight.mul_(1 - amount)


@torch.no_grad()
def fit(model, x, y, rate):
    for _ in range(4):
        loss = (model(x) - y).square().mean()
        loss.backward()
        for p in model.parameters():
            p -= rate * p.grad
            p.grad = None
        decay(model.parameters(), 0.01)
    return loss


torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1))
print(fit(net, torch.randn(32, 6), torch.randn(32, 1), 0.05).item())
