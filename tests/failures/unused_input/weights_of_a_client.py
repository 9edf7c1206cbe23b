# code: BS204
# variable: local
# cause: slopes = torch.autograd.grad(misfit, tuple(shared.parameters()))
# fix: slopes = torch.autograd.grad(misfit, local)
import torch
from torch import nn

torch.manual_seed(4)


def predict(weights, x):
    first, bias, last, offset = weights
    return nn.functional.linear(torch.tanh(nn.functional.linear(x, first, bias)), last, offset)


def train_client(shared, batches, rate=0.05):
    """Gradient descent that leaves the shared weights as they are."""
    local = list(shared.parameters())
    for x, y in batches:
        misfit = (predict(local, x) - y).abs().mean()
        slopes = torch.autograd.grad(misfit, tuple(shared.parameters()))
        local = [(w.detach() - rate * slope).requires_grad_(True) for w, slope in zip(local, slopes, strict=True)]
    return local


server = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
rounds = [(torch.randn(6, 3), torch.randn(6, 1)) for _ in range(3)]
client = train_client(server, rounds)
