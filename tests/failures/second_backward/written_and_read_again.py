# code: BS201
# variable: memory.state
# cause: self.state = h
# fix: optimizer.step()
import torch
from torch import nn

rnn, head = nn.GRUCell(4, 8), nn.Linear(8, 1)
optimizer = torch.optim.SGD([*rnn.parameters(), *head.parameters()], lr=0.1)
x = torch.randn(2, 4)


class Memory:
    def __init__(self):
        self.state = torch.zeros(2, 8)

    def write(self, seen):
        h = torch.tanh(seen + self.state)
        self.state = h
        return h

    def norm(self):
        return self.state.pow(2).mean()


memory = Memory()
optimizer = torch.optim.SGD(rnn.parameters(), lr=0.1)
for step in range(2):
    h = memory.write(rnn(x, torch.zeros(2, 8)))
    loss = head(h).mean() + memory.norm()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
