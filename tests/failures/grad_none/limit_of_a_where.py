# code: BS213
# variable: limit.grad
# cause: return torch.where(x > limit, steep * x, flat * x)
# fix: torch.sigmoid(x - limit)
"""Two slopes, and the limit between them: nothing of the loss has a gradient for the limit."""

import torch

torch.manual_seed(0)
x, y = torch.randn(64), torch.randn(64)
steep, flat, limit = (torch.tensor(each, requires_grad=True) for each in (2.0, 0.5, 0.1))


def kinked(x, steep, flat, limit):
    return torch.where(x > limit, steep * x, flat * x)


for _ in range(3):
    loss = (kinked(x, steep, flat, limit) - y).square().mean()
    loss.backward()
    with torch.no_grad():
        for p in (steep, flat, limit):
            p -= 0.1 * p.grad
            p.grad = None
