# code: BS219
# variable: net[0].weight
# cause: best = copy.deepcopy(net)
# fix: for each in (m for m in (net[0], net[2]) if hasattr(m, 'weight_orig')): each.weight = each.weight.detach()
import copy

import torch
from torch import nn
from torch.nn.utils import prune

torch.manual_seed(0)
net = nn.Sequential(nn.Conv1d(2, 4, 3), nn.ReLU(), nn.Conv1d(4, 1, 3))
for layer in net:
    if isinstance(layer, nn.Conv1d):
        prune.l1_unstructured(layer, name="weight", amount=0.3)

optimizer, lowest, best = torch.optim.Adam(net.parameters(), lr=1e-2), float("inf"), None
for _ in range(4):
    loss = net(torch.randn(8, 2, 12)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if loss.item() < lowest:
        lowest = loss.item()
        best = copy.deepcopy(net)
