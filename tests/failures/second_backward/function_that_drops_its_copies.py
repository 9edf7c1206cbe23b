# code: BS201
# variable: hidden
# cause: h.detach()
# fix: hidden = tuple(h.detach() for h in hidden)
import torch
from torch import nn


def cut(hidden):
    for h in hidden:
        h.detach()


rnn = nn.LSTM(4, 8)
head = nn.Linear(8, 1)
optimizer = torch.optim.SGD([*rnn.parameters(), *head.parameters()], lr=0.1)
hidden = torch.zeros(1, 2, 8), torch.zeros(1, 2, 8)
for chunk in torch.randn(6, 5, 2, 4):
    output, hidden = rnn(chunk, hidden)
    loss = head(output).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    cut(hidden)
