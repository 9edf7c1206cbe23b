# code: BS201
# variable: net.prepared
# cause: self.prepared = adjacency
# fix: remove lines 16 and 17
import torch
from torch import nn


class GraphNet(nn.Module):
    def __init__(self, keep=True):
        super().__init__()
        self.inner, self.outer = nn.Linear(4, 8), nn.Linear(8, 2)
        self.keep, self.prepared = keep, None

    def normalized(self, adjacency):
        if self.prepared is not None:
            return self.prepared
        adjacency = adjacency / adjacency.sum(1, keepdim=True)
        if self.keep:
            self.prepared = adjacency
        return adjacency

    def forward(self, x, adjacency):
        adjacency = self.normalized(adjacency)
        return adjacency @ self.outer(torch.relu(adjacency @ self.inner(x)))


torch.manual_seed(0)
net = GraphNet().requires_grad_(False)
x, edges, labels = torch.randn(6, 4), (torch.rand(6, 6) > 0.5).float(), torch.randint(0, 2, (6,))
change = torch.full((6, 6), 0.1, requires_grad=True)
for _ in range(3):
    loss = nn.functional.cross_entropy(net(x, edges + change), labels)
    loss.backward()
    with torch.no_grad():
        change += 0.1 * change.grad
    change.grad = None
