# code: BS200
# variable: param 'initial_lr' is not specified
# cause: plan = torch.optim.lr_scheduler.StepLR(self.adam, 2, last_epoch=self.done - 1)
# fix: write `torch.save({"net": self.net.state_dict(), "done": self.done, "adam": self.adam.state_dict()}, file)`
# unsure: whether it is a training to resume is not known
import io

import torch
from torch import nn


class Run:
    def __init__(self):
        self.net = nn.Linear(3, 1)
        self.adam = torch.optim.Adam(self.net.parameters(), lr=0.1)
        self.done = 0

    def save(self, file):
        torch.save({"net": self.net.state_dict(), "done": self.done}, file)

    def load(self, file):
        saved = torch.load(file)
        self.net.load_state_dict(saved["net"])
        self.done = saved["done"]

    def train(self, steps):
        plan = torch.optim.lr_scheduler.StepLR(self.adam, 2, last_epoch=self.done - 1)
        for _ in range(steps):
            self.adam.zero_grad()
            self.net(torch.randn(4, 3)).square().mean().backward()
            self.adam.step()
            plan.step()
            self.done += 1


file, first, second = io.BytesIO(), Run(), Run()
first.train(3)
first.save(file)
file.seek(0)
second.load(file)
second.train(3)
