"""A model too large for a row a step: its walk is told by module. Ten sigmoids in a row let the gradient vanish."""

import torch
from torch import nn

import backsight as bs

torch.manual_seed(0)
layers = [layer for _ in range(10) for layer in (nn.Linear(16, 16), nn.Sigmoid())]
model = nn.Sequential(*layers, nn.Linear(16, 1)).double()

with bs.watch():  # notes which module each operation comes from
    loss = model(torch.randn(32, 16, dtype=torch.double)).square().mean()
    walk = bs.walk(loss)

arriving = walk.until("4").norm_in
print(f"the gradient that arrives at layer 4 has norm {arriving:.2g}\n")
print(walk.run())
