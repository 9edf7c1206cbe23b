# code: BS210
# variable: block
# cause: self.level += rate * (x.detach().mean() + 1)
# fix: self.level_due = rate * (x.detach().mean() + 1)
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Gated(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer = nn.Linear(width, width)
        self.register_buffer("level", torch.tensor(0.0))

    def follow(self, x, rate):
        self.level += rate * (x.detach().mean() + 1)

    def forward(self, x):
        loud = x[x.mean(1) > self.level]
        if self.training:
            self.follow(loud, 0.9)
        return self.layer(loud).relu()


block = Gated(6)
optimizer = torch.optim.SGD(block.parameters(), lr=0.1)
torch.manual_seed(0)
for _ in range(3):
    out = checkpoint(block, torch.randn(20, 6) + 0.3, use_reentrant=False)
    optimizer.zero_grad()
    out.square().sum().backward()
    optimizer.step()
