# code: BS202
# variable: self.d_opt.step
# cause: self.d_opt.step()
# fix: Compute g_loss after self.d_opt.step()
import torch
from torch import nn


class Trainer:
    def __init__(self):
        self.g, self.d = nn.Linear(2, 2), nn.Linear(2, 1)
        self.g_opt = torch.optim.Adam(self.g.parameters())
        self.d_opt = torch.optim.Adam(self.d.parameters())

    def losses(self, real):
        fake = self.g(torch.randn(4, 2))
        return self.d(fake.detach()).mean() - self.d(real).mean(), -self.d(fake).mean()

    def update_d(self, loss):
        self.d_opt.zero_grad()
        loss.backward()
        self.d_opt.step()

    def step(self, real):
        d_loss, g_loss = self.losses(real)
        self.update_d(d_loss)
        self.g_opt.zero_grad()
        g_loss.backward()
        self.g_opt.step()


trainer = Trainer()
for _ in range(2):
    trainer.step(torch.randn(4, 2))
