# code: BS225
# variable: model[1]
# cause: return grad_input[0] * 0.5
# fix: `return (grad_input[0] * 0.5,)`
"""Damp the gradient of one layer; the batch is one state."""

import torch
from torch import nn

model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))


def damp(module, grad_input, grad_output):
    return grad_input[0] * 0.5


model[1].register_full_backward_hook(damp)
state = torch.randn(1, 4)
model(state).sum().backward()
