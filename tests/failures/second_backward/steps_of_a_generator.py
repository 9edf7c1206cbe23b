# code: BS201
# variable: hidden
# cause: hidden = rnn(x, hidden)
# fix: hidden = hidden.detach()
import torch
from torch import nn

rnn, head = nn.GRUCell(4, 8), nn.Linear(8, 1)
optimizer = torch.optim.SGD([*rnn.parameters(), *head.parameters()], lr=0.1)
x = torch.randn(2, 4)


def steps():
    hidden = torch.zeros(2, 8)
    while True:
        hidden = rnn(x, hidden)
        loss = head(hidden).mean()
        loss.backward()
        yield loss.item()


for number, value in enumerate(steps()):
    assert number < 5
