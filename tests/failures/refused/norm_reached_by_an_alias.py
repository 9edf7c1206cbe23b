# code: BS200
# variable: model[1].norm.weight
# cause: decayed.append(module.weight)
# fix: write `optimizer.add_param_group({"params": [p for p in decayed if all(p is not each for each in norms)]})`
import torch
from torch import nn


class Padded(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.BatchNorm1d(width)

    @property
    def weight(self):
        return self.norm.weight

    @property
    def bias(self):
        return self.norm.bias

    def forward(self, x):
        return nn.functional.pad(self.norm(x), (1, 1))


model = nn.Sequential(nn.Linear(3, 4), Padded(4), nn.Linear(6, 2), nn.Linear(2, 2))
norms, decayed, biases = [], [], []
for module in model.modules():
    if isinstance(getattr(module, "bias", None), nn.Parameter):
        biases.append(module.bias)
    if isinstance(module, nn.BatchNorm1d):
        norms.append(module.weight)
    elif isinstance(getattr(module, "weight", None), nn.Parameter):
        decayed.append(module.weight)
optimizer = torch.optim.SGD(norms, lr=0.1)
optimizer.add_param_group({"params": decayed})
optimizer.add_param_group({"params": biases})
model(torch.randn(4, 3)).square().mean().backward()
optimizer.step()
