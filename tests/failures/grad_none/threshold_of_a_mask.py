# code: BS213
# variable: limit.grad
# cause: kept = points[lengths < limit]
# fix: weight = torch.sigmoid(limit - lengths)
"""A limit that is to be learned, and only selects which points the loss is computed from."""

import torch

torch.manual_seed(0)
points = torch.randn(50, 3, requires_grad=True)
limit = torch.tensor(1.5, requires_grad=True)


def mean_length(points, limit):
    lengths = points.norm(dim=1)
    kept = points[lengths < limit]
    return kept.norm(dim=1).mean()


for _ in range(3):
    loss = mean_length(points, limit)
    loss.backward()
    with torch.no_grad():
        points -= 0.1 * points.grad
        limit -= 0.1 * limit.grad
        points.grad.zero_()
        limit.grad.zero_()
