# code: BS223
# variable: model.stages
# cause: self.stages = {"down": [nn.Linear(d, 8), nn.Linear(8, 4)], "up": [nn.Linear(4, d)]}
# fix: nn.ModuleDict({"down": nn.ModuleList([nn.Linear(d, 8), nn.Linear(8, 4)]), "up": nn.ModuleList([nn.Linear(4, d)])})
import torch
from torch import nn


class Tower(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.stages = {"down": [nn.Linear(d, 8), nn.Linear(8, 4)], "up": [nn.Linear(4, d)]}

    def forward(self, x):
        for name in ("down", "up"):
            for layer in self.stages[name]:
                x = torch.tanh(layer(x))
        return x


torch.manual_seed(0)
model = Tower(6)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(16, 6)
for step in range(3):
    loss = (model(x) - x).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
