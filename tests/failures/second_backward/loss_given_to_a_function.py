# code: BS201
# variable: total
# cause: total = head(rnn(x)).pow(2).mean()
# fix: each backward() needs a graph of its own
import torch
from torch import nn

rnn, head = nn.GRUCell(4, 8), nn.Linear(8, 1)
optimizer = torch.optim.SGD([*rnn.parameters(), *head.parameters()], lr=0.1)
x = torch.randn(2, 4)


def update(loss):
    loss.backward()


total = head(rnn(x)).pow(2).mean()
for step in range(2):
    update(total)
