# code: BS202
# variable: self.opt.step() changed self.net.2.weight
# cause: self.scaler.step(self.opt)
# line: 24
# fix: with a new forward pass
import torch
from torch import nn


class Trainer:
    def __init__(self):
        self.net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
        self.opt = torch.optim.Adam(self.net.parameters())
        self.scaler = torch.amp.GradScaler("cpu")

    def run(self, x):
        self.first(x)
        self.scaler.scale(self.second).backward()
        self.scaler.step(self.opt)

    def first(self, x):
        both = self.net(x)
        self.scaler.scale(both[:, 0].square().mean()).backward(retain_graph=True)
        self.scaler.step(self.opt)
        self.second = both[:, 1].square().mean()


Trainer().run(torch.randn(5, 3))
