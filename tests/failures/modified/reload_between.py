# code: BS202
# variable: model.2.weight
# cause: model.load_state_dict(best)
# fix: load_state_dict
import copy

import torch
from torch import nn

model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
best, best_loss = copy.deepcopy(model.state_dict()), float("inf")
for epoch in range(4):
    x = torch.randn(6, 3, requires_grad=True)
    loss = model(x).square().mean()
    if loss.item() > best_loss or epoch == 3:
        model.load_state_dict(best)
    else:
        best, best_loss = copy.deepcopy(model.state_dict()), loss.item()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
