"""Riemannian Adam: points on the Poincare ball, and a matrix on the Stiefel manifold."""

import geoopt
import torch
from _digest import digest
from torch import nn

torch.manual_seed(0)
ball = geoopt.PoincareBall()


class Embeddings(nn.Module):
    def __init__(self):
        super().__init__()
        self.points = geoopt.ManifoldParameter(ball.expmap0(torch.randn(20, 2) * 0.1), manifold=ball)
        self.frame = geoopt.ManifoldParameter(torch.linalg.qr(torch.randn(4, 2))[0], manifold=geoopt.Stiefel())

    def forward(self, i, j):
        return ball.dist(self.points[i], self.points[j])


model = Embeddings()
optimizer = geoopt.optim.RiemannianAdam(model.parameters(), lr=1e-2, stabilize=10)
i, j = torch.randint(0, 20, (2, 60))
distance, target = torch.rand(60) * 2, torch.randn(4, 2)
for _ in range(60):
    optimizer.zero_grad()
    loss = (model(i, j) - distance).square().mean() + (model.frame - target).square().mean()
    loss.backward()
    optimizer.step()
print(loss.item())
print(digest(model))
