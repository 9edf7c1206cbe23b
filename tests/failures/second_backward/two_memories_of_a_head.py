# code: BS201
# variable: self.content | self.address
# cause: self.content[slot] = self.value(x)
# fix: self.address = self.address.detach(); self.content = self.content.detach().
import torch
from torch import nn


class Memory(nn.Module):
    def __init__(self, width=5, slots=3):
        super().__init__()
        self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.address, self.content = torch.zeros(slots, width), torch.zeros(slots, width)

    def forward(self, x, slot):
        self.address[slot] = self.key(x)
        self.content[slot] = self.value(x)
        weights = (self.address @ self.query(x)).softmax(0)
        return weights @ self.content


torch.manual_seed(0)
memory = Memory()
sgd = torch.optim.SGD(memory.parameters(), lr=0.1)
for k in range(6):
    x = torch.randn(5)
    off = (memory(x, k % 3) - x).square().mean()
    sgd.zero_grad()
    off.backward()
    sgd.step()
