# code: BS202
# variable: state
# cause: state[:, k] = torch.tanh(cell(state[:, k]))
# fix: new = state.clone()
import torch
from torch import nn

torch.manual_seed(0)
embed, cell, score = nn.Linear(4, 6), nn.Linear(6, 6), nn.Linear(6, 1)
optimizer = torch.optim.SGD([*embed.parameters(), *cell.parameters(), *score.parameters()], lr=0.1)
for _ in range(3):
    state = embed(torch.randn(2, 3, 4))
    total = 0
    for k in range(3):
        state[:, k] = torch.tanh(cell(state[:, k]))
        total = total + score(state).square().mean()
    optimizer.zero_grad()
    total.backward()
    optimizer.step()
