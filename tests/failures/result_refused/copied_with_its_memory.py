# code: BS219
# variable: agent.memory
# cause: best = copy.deepcopy(agent)
# fix: agent.memory = agent.memory.detach()
import copy

import torch
from torch import nn


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.act = nn.GRUCell(2, 4), nn.Linear(4, 1)
        self.forget()

    def forget(self):
        self.memory = torch.zeros(1, 4)

    def forward(self, seen):
        self.memory = self.cell(seen, self.memory)
        return self.act(self.memory)


torch.manual_seed(0)
agent = Agent()
optimizer = torch.optim.Adam(agent.parameters())
lowest, best = float("inf"), None
for _ in range(3):
    agent.forget()
    loss = sum((agent(torch.randn(1, 2)) - 1).square().sum() for _ in range(4))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if loss.item() < lowest:
        lowest = loss.item()
        best = copy.deepcopy(agent)
