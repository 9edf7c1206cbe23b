"""MAML by MetaSGD, and a learned weighting of samples by a functional optimizer."""

import torch
import torchopt
from _digest import digest
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
meta = torch.optim.Adam(net.parameters(), lr=1e-2)
inner = torchopt.MetaSGD(net, lr=0.1)
for _step in range(15):
    net_state, optim_state = torchopt.extract_state_dict(net), torchopt.extract_state_dict(inner)
    losses = []
    for _ in range(3):
        w = torch.randn(4, 1)
        support, query = torch.randn(12, 4), torch.randn(12, 4)
        for _ in range(2):
            inner.step(nn.functional.mse_loss(net(support), support @ w))
        losses.append(nn.functional.mse_loss(net(query), query @ w))
        torchopt.recover_state_dict(net, net_state)
        torchopt.recover_state_dict(inner, optim_state)
    meta.zero_grad()
    torch.stack(losses).mean().backward()
    meta.step()
print(losses[-1].item())
print(digest(net))
