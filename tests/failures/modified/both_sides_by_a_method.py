# code: BS202
# variable: self.d_opt.step()
# cause: self.learn(loss=d_loss, optimizer=self.d_opt)
# fix: Move lines 24, `score = self.d(fake)`, and 25, `g_loss = -score.mean()`, below line 27
import torch
from torch import nn


class Trainer:
    def __init__(self):
        self.g = nn.Linear(2, 3)
        self.d = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1))
        self.g_opt = torch.optim.SGD(self.g.parameters(), lr=0.1)
        self.d_opt = torch.optim.SGD(self.d.parameters(), lr=0.1)

    def learn(self, loss, optimizer):
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    def train(self, real):
        fake = self.g(torch.randn(len(real), 2))
        d_loss = self.d(fake.detach()).mean() - self.d(real).mean()
        score = self.d(fake)
        g_loss = -score.mean()
        # the discriminator learns first
        self.learn(loss=d_loss, optimizer=self.d_opt)
        self.learn(loss=g_loss, optimizer=self.g_opt)


torch.manual_seed(0)
trainer = Trainer()
for _ in range(2):
    trainer.train(torch.randn(4, 3))
