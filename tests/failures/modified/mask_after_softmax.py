# code: BS202
# variable: attention
# cause: attention[mask] = 0.0
# fix: attention.clone()
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)

    def forward(self, x, mask):
        q, k, v = self.query(x), self.key(x), self.value(x)
        attention = torch.softmax(q @ k.transpose(1, 2) / x.shape[-1] ** 0.5, dim=-1)
        attention[mask] = 0.0
        return attention @ v


layer = Attention(6)
x = torch.randn(2, 5, 6)
mask = torch.ones(2, 5, 5).triu(1).bool()
target = torch.randn(2, 5, 6)
optimizer = torch.optim.Adam(layer.parameters())
for _ in range(2):
    loss = nn.functional.mse_loss(layer(x, mask), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
