# code: BS201
# variable: first.backward
# cause: second.backward()
# fix: (first + second).backward()
import torch
from torch import nn

rnn, head = nn.GRUCell(4, 8), nn.Linear(8, 1)
optimizer = torch.optim.SGD([*rnn.parameters(), *head.parameters()], lr=0.1)
x = torch.randn(2, 4)

features = rnn(x, torch.zeros(2, 8))
first = head(features).mean()
second = head(features).pow(2).mean()
first.backward()
second.backward()
