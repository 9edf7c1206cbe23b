# code: BS201
# variable: self.prototypes
# cause: self.prototypes = self.means_of(*support)
# fix: put line 30 inside `with torch.no_grad():`
import torch
from torch import nn


class Embedder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 8))

    def forward(self, x):
        return nn.functional.normalize(self.layers(x), dim=1)


class FewShot:
    def __init__(self, support):
        torch.manual_seed(0)
        self.embedder = Embedder()
        self.optimizer = torch.optim.Adam(self.embedder.parameters(), lr=1e-2)
        self.prepare(support)

    def means_of(self, x, y):
        z = self.embedder(x)
        return torch.stack([z[y == k].mean(0) for k in range(3)])

    def prepare(self, support):
        self.prototypes = self.means_of(*support)

    def train(self, queries):
        for x, y in queries:
            distance = torch.cdist(self.embedder(x), self.prototypes)
            loss = nn.functional.cross_entropy(-distance, y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            print(loss.item())


labels = torch.arange(3).repeat(6)
FewShot((torch.randn(18, 4), labels)).train([(torch.randn(18, 4), labels) for _ in range(4)])
