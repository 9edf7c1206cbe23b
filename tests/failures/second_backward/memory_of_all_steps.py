# code: BS201
# variable: memory[0]
# cause: memory.append(h)
# fix: memory.append(h.detach())
import torch
from torch import nn

torch.manual_seed(0)
model, head = nn.Linear(4, 4), nn.Linear(4, 1)
optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=0.1)
x = torch.randn(5, 4)

memory = []


def step():
    h = model(x)
    loss = head(sum(memory, h)).square().sum()
    memory.append(h)
    loss.backward()


for _ in range(2):
    step()
