# code: BS207
# variable: Distances
# cause: return grad_points
# fix: return grad_points, grad_centres, None
import torch
from torch import nn


class Distances(torch.autograd.Function):
    @staticmethod
    def forward(ctx, points, centres, scale):
        apart = points.unsqueeze(1) - centres
        ctx.save_for_backward(apart)
        ctx.scale = scale
        return scale * apart.square().sum(-1)

    @staticmethod
    def backward(ctx, grad_output):
        (apart,) = ctx.saved_tensors
        pulls = 2 * ctx.scale * apart * grad_output.unsqueeze(-1)
        grad_points = pulls.sum(1)
        grad_centres = -pulls.sum(0)
        return grad_points


class Clusters(nn.Module):
    def __init__(self, features, clusters):
        super().__init__()
        self.stem = nn.Linear(features, 3)
        self.centres = nn.Parameter(torch.randn(clusters, 3))

    def forward(self, x):
        return -Distances.apply(self.stem(x), self.centres, 0.5)


model = Clusters(5, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, labels = torch.randn(12, 5), torch.randint(0, 4, (12,))
for _ in range(3):
    loss = nn.functional.cross_entropy(model(x), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
