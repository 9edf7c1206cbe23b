# code: BS202
# fix: .clone()
# variable: state
# cause: state[ended] = 0.0
"""The states of ended episodes are set to zero, right after tanh, whose gradient is computed from its result."""

import torch
from torch import nn

torch.manual_seed(0)
cell = nn.Linear(6, 4)


def advance(x, state, ended):
    state = cell(torch.cat([x, state], -1))
    state = torch.tanh(state)
    state[ended] = 0.0
    return state


state = torch.zeros(3, 4)
for step in range(3):
    state = advance(torch.randn(3, 2), state, torch.tensor([False, step == 1, False]))
state.square().mean().backward()
