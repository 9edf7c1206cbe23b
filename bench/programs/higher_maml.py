"""MAML: differentiable inner steps on sine waves."""

import higher
import torch
from _digest import digest
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(1, 24), nn.ReLU(), nn.Linear(24, 1))
meta = torch.optim.Adam(model.parameters(), lr=1e-2)
inner = torch.optim.SGD(model.parameters(), lr=0.05)
for _step in range(20):
    meta.zero_grad()
    total = 0.0
    for _ in range(4):
        amplitude, phase = torch.rand(1) * 3 + 0.5, torch.rand(1) * 3
        support, query = torch.rand(10, 1) * 6 - 3, torch.rand(10, 1) * 6 - 3
        with higher.innerloop_ctx(model, inner, copy_initial_weights=False) as (fmodel, diffopt):
            for _ in range(2):
                diffopt.step(nn.functional.mse_loss(fmodel(support), amplitude * torch.sin(support + phase)))
            loss = nn.functional.mse_loss(fmodel(query), amplitude * torch.sin(query + phase))
            loss.backward()
            total += loss.item()
    meta.step()
print(total / 4)
print(digest(model))
