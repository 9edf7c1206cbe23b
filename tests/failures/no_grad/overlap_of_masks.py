# code: BS203
# variable: loss
# cause: mask = torch.where(scores > self.limit, 1.0, 0.0)
# fix: both = (mask
# or: mask = torch.where(scores > self.limit, 1, 0)
import torch
from torch import nn


class Overlap(nn.Module):
    limit = 0.5

    def forward(self, scores, target):
        mask = torch.where(scores > self.limit, 1.0, 0.0)
        both = torch.logical_and(mask, target).sum(1)
        either = mask.logical_or(target).sum(1)
        return 1 - (both / either.clamp(min=1)).mean()


torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 6), nn.Sigmoid())
overlap = Overlap()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(2):
    target = torch.randint(0, 2, (4, 6)).float()
    loss = overlap(net(torch.randn(4, 6)), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
