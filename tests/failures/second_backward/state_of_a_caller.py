# code: BS201
# variable: hidden
# cause: hidden = step(hidden)
# fix: hidden = hidden.detach()
import torch
from torch import nn

rnn, head = nn.GRUCell(4, 8), nn.Linear(8, 1)
optimizer = torch.optim.SGD([*rnn.parameters(), *head.parameters()], lr=0.1)
x = torch.randn(2, 4)


def step(hidden):
    hidden = rnn(x, hidden)
    loss = head(hidden).mean()
    loss.backward()
    return hidden


def train():
    hidden = torch.zeros(2, 8)
    for _ in range(3):
        hidden = step(hidden)


train()
