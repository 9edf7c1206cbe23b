# code: BS201
# variable: out
# cause: out = rnn(x)
# fix: out = rnn(x)
import torch
from torch import nn

rnn, head = nn.GRUCell(4, 8), nn.Linear(8, 1)
optimizer = torch.optim.SGD([*rnn.parameters(), *head.parameters()], lr=0.1)
x = torch.randn(2, 4)

out = rnn(x)
for column in range(3):
    out[:, column].pow(2).sum().backward()
