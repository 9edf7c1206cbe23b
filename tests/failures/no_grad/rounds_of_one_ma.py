# code: BS203
# variable: total
# cause: with torch.no_grad():
# fix: Remove line 16
# line: 16
import torch
from torch import nn


def refine(model, x, y, rounds):
    history = [0.0] * (rounds + 1)
    slopes = torch.autograd.grad((model(x) - y).square().mean(), model.parameters())
    weights = {k: p - 0.1 * g for (k, p), g in zip(model.named_parameters(), slopes)}
    with torch.no_grad():
        history[0] = history[0] + (model(x) - y).abs().mean()
    with torch.no_grad():
        history[1] = history[1] + (torch.func.functional_call(model, weights, (x,)) - y).square().mean()
    for n in range(2, rounds + 1):
        error = (torch.func.functional_call(model, weights, (x,)) - y).square().mean()
        slopes = torch.autograd.grad(error, list(weights.values()))
        weights = {k: w - 0.1 * g for (k, w), g in zip(weights.items(), slopes)}
        history[n] = history[n] + (torch.func.functional_call(model, weights, (x,)) - y).square().mean()
    total = history[-1] / rounds
    total.backward()
    return history


torch.manual_seed(0)
model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    optimizer.zero_grad()
    refine(model, torch.randn(8, 3), torch.randn(8, 1), rounds=1)
    optimizer.step()
