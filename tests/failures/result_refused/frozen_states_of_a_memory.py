# code: BS219
# variable: states[0]
# cause: state.requires_grad_(False)
# fix: Detach each where it is computed
import torch
from torch import nn


class Memory(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(4, 6)
        self.kept = []

    def remember(self, x):
        states = [self.cell(x), self.cell(-x)]
        self.kept.extend(states)
        for state in states:
            state.requires_grad_(False)

    def forward(self, x):
        return self.cell(x, self.kept[-1])


torch.manual_seed(0)
memory = Memory()
optimizer = torch.optim.SGD(memory.parameters(), lr=0.1)
for _ in range(3):
    x = torch.randn(5, 4)
    memory.remember(x)
    loss = memory(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
