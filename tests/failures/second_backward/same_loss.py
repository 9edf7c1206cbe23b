# code: BS201
# variable: loss
# line: 13
# fix: give the first call create_graph=True
import torch
from torch import nn

rnn, head = nn.GRUCell(4, 8), nn.Linear(8, 1)
optimizer = torch.optim.SGD([*rnn.parameters(), *head.parameters()], lr=0.1)
x = torch.randn(2, 4)
loss = head(rnn(x)).pow(2).mean()
loss.backward()
loss.backward()
