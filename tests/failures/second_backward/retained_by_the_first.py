# code: BS201
# variable: second
# line: 17
# fix: give the first call create_graph=True
import torch
from torch import nn

rnn, head = nn.GRUCell(4, 8), nn.Linear(8, 1)
optimizer = torch.optim.SGD([*rnn.parameters(), *head.parameters()], lr=0.1)
x = torch.randn(2, 4)

features = rnn(x, torch.zeros(2, 8))
first = head(features).mean()
second = head(features).pow(2).mean()
first.backward(retain_graph=True)
second.backward()
second.backward()
