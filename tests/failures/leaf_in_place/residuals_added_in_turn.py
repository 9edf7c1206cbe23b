# code: BS205
# variable: signal
# cause: signal += gain * branch(signal)
# fix: signal = signal + (gain
import torch
from torch import nn


def through(signal, branches, gain):
    for branch in branches:
        signal += gain * branch(signal)
    return signal.tanh()


torch.manual_seed(0)
branches = nn.ModuleList(nn.Linear(5, 5) for _ in range(3)).requires_grad_(False)
probe = nn.Parameter(torch.randn(4, 5))
optimizer = torch.optim.SGD([probe], lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    loss = -through(probe, branches, 0.5).mean()
    loss.backward()
    optimizer.step()
