# code: BS203
# variable: loss
# cause: torch.set_grad_enabled(False)
# fix: In __exit__, above line 19, put `torch.set_grad_enabled(self.was_enabled)`
import torch
from torch import nn


class Frozen:
    def __init__(self, model):
        self.model = model

    def __enter__(self):
        torch.set_grad_enabled(False)
        self.model.eval()
        return self.model

    def __exit__(self, *raised):
        self.model.train()


model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 2))
optimizer = torch.optim.Adam(model.parameters())
for epoch in range(2):
    x, y = torch.randn(6, 4), torch.randint(0, 2, (6,))
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with Frozen(model) as fixed:
        print(epoch, (fixed(x).argmax(1) == y).float().mean())
