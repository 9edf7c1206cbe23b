# code: BS201
# variable: match.wanted
# cause: self.wanted = self.net(picture) / 2
# fix: on line 18, write `self.wanted = (self.net(picture) / 2).detach()`
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Tanh(), nn.Conv2d(4, 4, 3), nn.Tanh())
goal = torch.rand(1, 1, 8, 8)


class Match(nn.Module):
    def __init__(self, net, picture):
        super().__init__()
        self.net = net
        # the goal never changes
        self.wanted = self.net(picture) / 2

    def forward(self, picture):
        return (self.net(picture) / 2 - self.wanted).square().mean()


match = Match(net, goal)
picture = torch.rand(1, 1, 8, 8, requires_grad=True)
optimizer = torch.optim.Adam([picture], lr=0.05)
for _ in range(3):
    optimizer.zero_grad()
    match(picture).backward()
    optimizer.step()
