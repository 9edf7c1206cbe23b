# code: BS204
# variable: self.t
# cause: self.t.requires_grad_()
# fix: `angles = self.features(self.t)`
import torch
from torch import nn


class Oscillator:
    def __init__(self):
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=1e-2)
        self.waves = torch.arange(1.0, 5.0)

    def features(self, t):
        return torch.cat([torch.sin(t * self.waves), torch.cos(t * self.waves)], dim=1)

    def fit(self, steps=4):
        for step in range(steps):
            self.t = torch.rand(32, 1)
            angles = self.features(self.t)
            loss = (self.net(angles) - torch.sin(self.t)).square().mean()
            if step >= 2:
                self.t.requires_grad_()
                x = self.net(angles)
                (velocity,) = torch.autograd.grad(x.sum(), self.t, create_graph=True)
                loss = loss + (velocity - torch.cos(self.t)).square().mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()


Oscillator().fit()
