# code: BS200
# variable: Whiten.apply(features, centre, steps)
# cause: ctx.mark_dirty(centre, features, steps)
# fix: write `ctx.mark_dirty(features)`
import torch
from torch import nn


class Whiten(torch.autograd.Function):
    @staticmethod
    def forward(ctx, features, centre, steps):
        steps += 1
        centre.lerp_(features.mean(0), 0.1)
        features.sub_(centre)
        ctx.mark_dirty(centre, features, steps)
        return features

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None, None


torch.manual_seed(0)
stem, head = nn.Linear(5, 7), nn.Linear(7, 1)
centre, steps = torch.zeros(7), torch.zeros(1)
optimizer = torch.optim.SGD([*stem.parameters(), *head.parameters()], lr=0.1)
for _ in range(3):
    features = stem(torch.randn(12, 5))
    features = Whiten.apply(features, centre, steps)
    loss = head(features).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
