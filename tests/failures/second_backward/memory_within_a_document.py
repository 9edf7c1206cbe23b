# code: BS201
# variable: model.memory.total
# cause: self.total = self.total + keys.mT @ values
# fix: put `model.memory.total = model.memory.total.detach(); model.memory.norm = model.memory.norm.detach()` below line 52
import torch
from torch import nn


class Memory(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.key, self.value = nn.Linear(size, size), nn.Linear(size, size)
        self.size = size
        self.reset()

    def reset(self):
        self.total = torch.zeros(self.size, self.size)
        self.norm = torch.zeros(self.size, 1)

    def forward(self, x):
        keys, values = self.key(x).exp(), self.value(x)
        read = keys @ self.total / (keys @ self.norm + 1) + values
        self.store(keys, values)
        return read

    def store(self, keys, values):
        self.total = self.total + keys.mT @ values
        self.norm = self.norm + keys.sum(0).unsqueeze(-1)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 8)
        self.memory = Memory(8)
        self.head = nn.Linear(8, 20)

    def forward(self, words):
        x = self.embed(words)
        return self.head(x + self.memory(x))


torch.manual_seed(0)
model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step, document in enumerate(torch.randint(0, 20, (3, 33))):
    model.memory.reset()
    optimizer.zero_grad()
    for i in range(4):
        part = document[8 * i : 8 * i + 9]
        loss = nn.functional.cross_entropy(model(part[:-1]), part[1:]) / 4
        loss.backward()
    optimizer.step()
    print(step, loss.item())
