# code: BS209
# variable: model.trunk.2
# cause: return self.head(self.trunk(x).flatten(1))
# fix: partial(nn.Hardtanh, -2.0, 2.0)
import functools

import torch
from torch import nn

clip = functools.partial(nn.Hardtanh, -2.0, 2.0, inplace=True)


def stage(inner, outer):
    return [nn.Conv1d(inner, outer, 3, padding=1), nn.BatchNorm1d(outer), clip()]


class Signal(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(*stage(1, 4), *stage(4, 4))
        self.head = nn.Linear(32, 2)

    def forward(self, x):
        return self.head(self.trunk(x).flatten(1))


torch.manual_seed(0)
model, norms = Signal(), []
for layer in model.trunk:
    if isinstance(layer, nn.BatchNorm1d):
        layer.register_full_backward_hook(lambda module, given, got: norms.append(got[0].norm().item()))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for _ in range(2):
    loss = model(torch.randn(6, 1, 8)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
