# code: BS224
# variable: self.scaler.unscale_(self.opt)
# cause: self.scaler.unscale_(self.opt)
# fix: Put size = torch.zeros(()) above line 20
import torch
from torch import nn


class Trainer:
    def __init__(self, net, every):
        self.net, self.every = net, every
        self.opt = torch.optim.SGD(net.parameters(), lr=0.1)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=8.0)

    def part(self, at, x):
        loss = self.net(x).square().mean() / self.every
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.opt)
        size = nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
        if at % self.every == self.every - 1:
            self.scaler.step(self.opt)
            self.scaler.update()
            self.opt.zero_grad()
        return {"size": float(size)}


torch.manual_seed(0)
trainer = Trainer(nn.Linear(4, 1), 3)
for k in range(9):
    print(trainer.part(k, torch.randn(8, 4)))
