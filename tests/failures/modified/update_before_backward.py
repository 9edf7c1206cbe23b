# code: BS202
# variable: target.net.2.weight
# cause: old.mul_(0.9).add_(new, alpha=0.1)
# fix: Move line 32, `target.update(online)`, below line 33
import torch
from torch import nn

torch.manual_seed(0)


def mlp():
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))


class Slow:
    def __init__(self):
        self.net = mlp()

    @torch.no_grad()
    def update(self, other):
        for old, new in zip(self.net.parameters(), other.parameters(), strict=True):
            old.mul_(0.9).add_(new, alpha=0.1)


online, target = mlp(), Slow()
optimizer = torch.optim.Adam(online.parameters(), lr=1e-3)
for _ in range(3):
    state, following = torch.randn(16, 4), torch.randn(16, 4)
    goal = 0.99 * target.net(following)
    error = (online(state) - goal).pow(2).mean()
    optimizer.zero_grad()
    target.update(online)
    error.backward()
    optimizer.step()
