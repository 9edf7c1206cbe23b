# code: BS201
# variable: state
# cause: state = [h, h + 1]
# fix: state = [h.detach() for h in state]
# or: state = {"k": h, "v": h + 1}
# or: state = [(h, h + 1), (h, h)]
# or: state = {0: (h, h)}
# or: state = ({"k": h},)
# or: state = [h, None]
import torch
from torch import nn

cell, head = nn.RNNCell(4, 8), nn.Linear(8, 1)
x = torch.randn(2, 4)


def first(state):
    while not torch.is_tensor(state):
        state = next(iter(state.values())) if isinstance(state, dict) else state[0]
    return state


state = None
for step in range(3):
    h = cell(x, None if state is None else first(state))
    state = [h, h + 1]
    loss = head(h).mean()
    loss.backward()
