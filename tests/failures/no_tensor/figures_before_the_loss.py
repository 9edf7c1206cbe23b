# code: BS222
# variable: spread
# cause: loss, near, spread = compare(net(points), groups)
# fix: write `spread, near, loss = compare(net(points), groups)`
import torch
from torch import nn

torch.manual_seed(0)


def compare(codes, groups):
    apart = torch.cdist(codes, codes)
    alike = groups[:, None] == groups[None]
    contrast_loss = apart[alike].pow(2).mean() + (1 - apart[~alike]).clamp(min=0).mean()
    mean_near = apart[alike].mean().item()
    return mean_near, apart[~alike].mean().item(), contrast_loss


net = nn.Linear(6, 3)
opt = torch.optim.SGD(net.parameters(), lr=0.05)
points, groups = torch.randn(12, 6), torch.arange(12) % 3

for epoch in range(3):
    loss, near, spread = compare(net(points), groups)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(epoch, near)
