# code: BS201
# variable: losses
# cause: losses.append(head(rnn(x)).pow(2).mean())
# fix: Empty losses at the start of
import torch
from torch import nn

rnn, head = nn.GRUCell(4, 8), nn.Linear(8, 1)
optimizer = torch.optim.SGD([*rnn.parameters(), *head.parameters()], lr=0.1)
x = torch.randn(2, 4)

losses = []
for step in range(3):
    losses.append(head(rnn(x)).pow(2).mean())
    loss = torch.stack(losses).sum()
    loss.backward()
