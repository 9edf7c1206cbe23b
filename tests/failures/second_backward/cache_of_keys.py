# code: BS201
# variable: self.cache
# cause: self.cache[t] = self.key(x)
# fix: self.cache.detach()
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.key, self.query = nn.Linear(4, 4), nn.Linear(4, 4)
        self.register_buffer("cache", torch.zeros(6, 4))

    def forward(self, x, t):
        self.cache[t] = self.key(x)
        return self.query(x) @ self.cache[t]


model = Attention()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for t in range(3):
    optimizer.zero_grad()
    loss = model(torch.randn(4), t).pow(2).sum()
    loss.backward()
    optimizer.step()
