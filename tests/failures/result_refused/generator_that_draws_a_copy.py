# code: BS219
# variable: self.clock.speed
# cause: other = copy.deepcopy(self)
# fix: self.weights = self.weights.detach(); self.clock.speed = self.clock.speed.detach()
import copy
import torch
from torch import nn


class Clock:
    def __init__(self):
        self.speed = torch.ones(1)


class Motion:
    def __init__(self, clock):
        self.clock = clock

    def set(self, speed, weights):
        self.clock.speed = speed
        self.weights = weights

    def at(self, times):
        phase = times / self.clock.speed[:, None]
        return torch.stack([phase, phase.sin()], dim=-1) @ self.weights[:, :, None]

    def drawn(self, times):
        other = copy.deepcopy(self)
        return other.at(times).detach().numpy()


torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3))
motion = Motion(Clock())
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
times = torch.linspace(0, 1, 20).repeat(5, 1)
for step in range(4):
    out = net(torch.randn(5, 4))
    motion.set(out[:, 0].exp(), out[:, 1:])
    loss = (motion.at(times).squeeze(-1) - times.cos()).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(loss.item(), motion.drawn(times).shape)
