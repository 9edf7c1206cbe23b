# code: BS203
# variable: loss
# cause: return self.kept[name]
# fix: Let the hook return nothing: remove line 19
import functools

import torch
from torch import nn


class Watcher:
    def __init__(self, model):
        self.kept = {}
        for name, layer in model.named_children():
            layer.register_forward_hook(functools.partial(self.keep, name))

    def keep(self, name, layer, given, output):
        self.kept[name] = output.detach()
        return self.kept[name]


model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
watcher = Watcher(model)
optimizer = torch.optim.Adam(model.parameters())
for step in range(2):
    x = torch.randn(6, 4)
    loss = (model(x) - x.mean(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, {name: value.std().item() for name, value in watcher.kept.items()})
