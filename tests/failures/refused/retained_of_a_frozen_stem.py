# code: BS200
# variable: f
# cause: with torch.no_grad():
# fix: f.requires_grad_()
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.head = nn.Linear(6, 12), nn.Linear(12, 2)

    def features(self, x):
        with torch.no_grad():
            h = torch.relu(self.stem(x))
        return h


torch.manual_seed(0)
model = Model()
x = torch.randn(4, 6)
f = model.features(x)
f.retain_grad()
model.head(f).sum().backward()
print(f.grad.norm())
