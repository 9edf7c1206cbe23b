# code: BS219
# variable: hops
# cause: return np.sum(hops, 0) / len(hops)
# fix: torch.stack(hops).sum(0) / len(hops)
import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy


class Propagation(nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.depth = depth

    def forward(self, edges, nodes):
        hops = [nodes]
        for _ in range(self.depth):
            hops.append(edges @ hops[-1])
        return np.sum(hops, 0) / len(hops)


class Recommender(nn.Module):
    def __init__(self, edges, width=8):
        super().__init__()
        self.edges = edges
        self.items = nn.Embedding(len(edges), width)
        self.spread, self.query = Propagation(2), nn.Linear(width, width)

    def forward(self, seen):
        items = self.spread(self.edges, self.items.weight)
        session = torch.tanh(self.query(items[seen].mean(1)))
        return session @ items.T


torch.manual_seed(0)
model = Recommender(torch.eye(12).roll(1, 0) / 2)
optimizer = torch.optim.Adam(model.parameters())
for _ in range(2):
    loss = cross_entropy(model(torch.randint(0, 12, (4, 3))), torch.randint(0, 12, (4,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
