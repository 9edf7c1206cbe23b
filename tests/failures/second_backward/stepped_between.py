# code: BS201
# variable: plain.backward
# cause: again = scores.abs().mean()
# fix: adam.step()
import torch
import torch.nn.functional as F
from torch import nn

rnn, head = nn.GRUCell(4, 8), nn.Linear(8, 1)
optimizer = torch.optim.SGD([*rnn.parameters(), *head.parameters()], lr=0.1)
x = torch.randn(2, 4)

adam = torch.optim.Adam([*rnn.parameters(), *head.parameters()])
scores = head(rnn(x))
plain = scores.square().mean()
plain.backward()
adam.step()
again = scores.abs().mean()
again.backward()
