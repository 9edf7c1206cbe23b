# code: BS201
# variable: plain.backward
# cause: plain, again = scores.square().mean(), scores.abs().mean()
# fix: scores = head(rnn(x))
import torch
from torch import nn

rnn, head = nn.GRUCell(4, 8), nn.Linear(8, 1)
optimizer = torch.optim.SGD([*rnn.parameters(), *head.parameters()], lr=0.1)
x = torch.randn(2, 4)

scores = head(rnn(x))
plain, again = scores.square().mean(), scores.abs().mean()
plain.backward()
with torch.no_grad():
    for p in rnn.parameters():
        p.clamp_(-0.1, 0.1)
        p.mul_(0.9)
again.backward()
