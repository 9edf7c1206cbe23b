# code: BS202
# variable: model.memory.slots
# cause: self.slots[self.at % len(self.slots)] = entry
# fix: return self.slots.view(len(self.slots), -1).clone()
import torch
from torch import nn


class Ring(nn.Module):
    def __init__(self, slots, width):
        super().__init__()
        self.register_buffer("slots", torch.zeros(slots, width))
        self.at = 0

    @property
    def keys(self):
        return self.slots.view(len(self.slots), -1)

    def put(self, entry):
        self.slots[self.at % len(self.slots)] = entry
        self.at += 1


class Reader(nn.Module):
    def __init__(self, width=6):
        super().__init__()
        self.query = nn.Linear(width, width)
        self.memory = Ring(5, width)

    def forward(self, x):
        weights = (self.query(x) @ self.memory.keys.T).softmax(-1)
        self.memory.put(x.mean(0))
        return weights.amax(1)


torch.manual_seed(0)
model = Reader()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    loss = -model(torch.randn(4, 6)).log().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
