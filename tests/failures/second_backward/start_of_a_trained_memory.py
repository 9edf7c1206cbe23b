# code: BS201
# variable: model.memory.slots
# cause: self.slots = self.slots + gate.unsqueeze(1) * value
# fix: put `model.memory.clear()` below line
"""A memory with a trained start, which each sequence is to begin with."""

import torch
from torch import nn


class Memory(nn.Module):
    def __init__(self, slots, width):
        super().__init__()
        self.start = nn.Parameter(torch.zeros(slots, width))
        self.clear()

    def clear(self):
        self.slots = self.start * 1.0

    def write(self, gate, value):
        self.slots = self.slots + gate.unsqueeze(1) * value

    def read(self, gate):
        return gate @ self.slots


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.memory = Memory(5, 3)
        self.gate, self.value, self.out = nn.Linear(2, 5), nn.Linear(2, 3), nn.Linear(3, 2)

    def forward(self, xs):
        read = []
        for x in xs:
            gate = self.gate(x).softmax(0)
            self.memory.write(gate, self.value(x))
            read.append(self.out(self.memory.read(gate)))
        return torch.stack(read)


model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    xs = torch.randn(6, 2)
    loss = (model(xs) - xs).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
