# code: BS201
# variable: loss
# cause: loss = head(rnn(x)).pow(2).mean()
# fix: after optimizer.step() the weights have changed
import torch
from torch import nn

rnn, head = nn.GRUCell(4, 8), nn.Linear(8, 1)
optimizer = torch.optim.SGD([*rnn.parameters(), *head.parameters()], lr=0.1)
x = torch.randn(2, 4)

loss = head(rnn(x)).pow(2).mean()
for step in range(3):
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
