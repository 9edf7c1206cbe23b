# code: BS205
# variable: model.0.offset
# cause: self.offset += x.mean(0)
# fix: `with torch.no_grad(): self.offset += x.mean(0)`
import torch
from torch import nn


class Standardize(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.offset = nn.Parameter(torch.zeros(width))
        self.fitted = False

    def fit(self, x):
        self.offset += x.mean(0)
        self.fitted = True

    def forward(self, x):
        if not self.fitted:
            self.fit(x)
        return x - self.offset


model = nn.Sequential(Standardize(4), nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(3):
    x = torch.randn(8, 4) + 3
    loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
