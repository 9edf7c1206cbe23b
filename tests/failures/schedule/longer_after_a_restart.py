# code: BS234
# variable: self.schedule
# cause: self.schedule.load_state_dict(state["schedule"])
# fix: make a new schedule
import torch
from torch import nn


class Trainer:
    def __init__(self, steps):
        self.steps = steps
        self.net = nn.Linear(4, 1)
        self.opt = torch.optim.Adam(self.net.parameters(), lr=1e-3)
        self.schedule = torch.optim.lr_scheduler.OneCycleLR(self.opt, max_lr=1e-2, total_steps=steps)

    def resume(self, state):
        self.net.load_state_dict(state["net"])
        self.opt.load_state_dict(state["opt"])
        self.schedule.load_state_dict(state["schedule"])

    def state(self):
        return {"net": self.net.state_dict(), "opt": self.opt.state_dict(), "schedule": self.schedule.state_dict()}

    def fit(self):
        while self.schedule.last_epoch < self.steps:
            self.opt.zero_grad()
            self.net(torch.randn(16, 4)).pow(2).mean().backward()
            self.opt.step()
            self.schedule.step()


first = Trainer(5)
first.fit()
second = Trainer(10)
second.resume(first.state())
second.fit()
