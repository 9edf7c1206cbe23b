# code: BS200
# variable: self.level
# cause: self.level = 0.9 * self.level + 0.1 * batch.mean(dim=0)
# fix: `self.level.copy_(0.9 * self.level + 0.1 * batch.mean(dim=0))` on line 17
import torch
from torch import nn


class Leveled(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.level = nn.Parameter(torch.zeros(size), requires_grad=False)
        self.gain = nn.Parameter(torch.ones(size))

    @torch.no_grad()
    def follow(self, batch):
        self.level = 0.9 * self.level + 0.1 * batch.mean(dim=0)

    def forward(self, batch):
        self.follow(batch)
        return (batch - self.level) * self.gain


torch.manual_seed(0)
leveled = Leveled(3)
optimizer = torch.optim.SGD([leveled.gain], lr=0.1)
for _ in range(3):
    loss = (leveled(torch.randn(16, 3) + 2) - 1).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
