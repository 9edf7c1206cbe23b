# code: BS201
# variable: memory
# cause: memory.cut()
# fix: write `memory = memory.cut()`
from typing import NamedTuple

import torch
from torch import nn


class Memory(NamedTuple):
    short: torch.Tensor
    long: torch.Tensor

    def cut(self):
        return Memory(*(each.detach() for each in self))


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(3, 5)
        self.out = nn.Linear(5, 1)

    def forward(self, x, memory):
        memory = Memory(*self.cell(x, (memory.short, memory.long)))
        return self.out(memory.short), memory


reader = Reader()
optimizer = torch.optim.Adam(reader.parameters())
memory = Memory(torch.zeros(2, 5), torch.zeros(2, 5))
for step in range(3):
    guess, memory = reader(torch.randn(2, 3), memory)
    loss = (guess - 1).abs().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    memory.cut()
