# code: BS202
# variable: states
# cause: states[t + 1] = torch.tanh(states[t] * cell(x))
# fix: put parts = [states[0]] before the loop
import torch


def unroll(cell, x, steps=4):
    states = torch.zeros(steps + 1, 3)
    for t in range(steps):
        states[t + 1] = torch.tanh(states[t] * cell(x))
    return states.sum()


loss = unroll(torch.nn.Linear(3, 3), torch.randn(3))
loss.backward()
