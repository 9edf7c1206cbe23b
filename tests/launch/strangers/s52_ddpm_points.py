"""Denoising diffusion on 2-d points (two moons)."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import make_moons
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, TensorDataset

hparams = dict(T=50, batch_size=128, lr=3e-3, epochs=20, lr_step=3, lr_gamma=0.6, n=2000)


class Schedule:
    def __init__(self, T):
        self.T = T
        self.beta = torch.linspace(1e-3, 0.15, T)
        self.alpha = 1.0 - self.beta
        self.alpha_bar = self.alpha.cumprod(0)

    def add_noise(self, x0, t, eps):
        a = self.alpha_bar[t].unsqueeze(1)
        return a.sqrt() * x0 + (1 - a).sqrt() * eps


class TimeMLP(nn.Module):
    def __init__(self, T, dim=96):
        super().__init__()
        freq = torch.exp(-math.log(1000.0) * torch.arange(8) / 8)
        pos = torch.arange(T).float()[:, None] * freq
        self.register_buffer("table", torch.cat([pos.sin(), pos.cos()], 1))
        self.inp = nn.Linear(2 + 16, dim)
        self.mid = nn.Linear(dim, dim)
        self.out = nn.Linear(dim, 2)

    def forward(self, x, t):
        h = F.silu(self.inp(torch.cat([x, self.table[t]], 1)))
        h = h + F.silu(self.mid(h))
        return self.out(h)


class Diffusion:
    def __init__(self, hp):
        self.hp = hp
        self.schedule = Schedule(hp["T"])
        self.net = TimeMLP(hp["T"])
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=hp["lr"])
        self.scheduler = StepLR(self.optimizer, step_size=hp["lr_step"], gamma=hp["lr_gamma"])

    def loss(self, x0):
        t = torch.randint(0, self.schedule.T, (len(x0),))
        eps = torch.randn_like(x0)
        return F.mse_loss(self.net(self.schedule.add_noise(x0, t, eps), t), eps)

    def train_epoch(self, loader):
        total = 0.0
        for (x0,) in loader:
            loss = self.loss(x0)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.scheduler.step()
            total += loss.item()
        return total / len(loader)

    @torch.no_grad()
    def sample(self, n):
        s = self.schedule
        x = torch.randn(n, 2)
        for i in reversed(range(s.T)):
            t = torch.full((n,), i)
            eps = self.net(x, t)
            x = (x - s.beta[i] / (1 - s.alpha_bar[i]).sqrt() * eps) / s.alpha[i].sqrt()
            if i > 0:
                x = x + s.beta[i].sqrt() * torch.randn_like(x)
        return x


def moons(n, seed):
    x, _ = make_moons(n, noise=0.04, random_state=seed)
    x = torch.tensor(x, dtype=torch.float32)
    return (x - torch.tensor([0.5, 0.25])) * 1.2


def main():
    torch.manual_seed(0)
    data = moons(hparams["n"], 0)
    reference = moons(2000, 1)
    loader = DataLoader(TensorDataset(data), hparams["batch_size"], shuffle=True)
    model = Diffusion(hparams)
    for epoch in range(hparams["epochs"]):
        loss = model.train_epoch(loader)
        if epoch % 4 == 3:
            dist = torch.cdist(model.sample(500), reference).min(1).values.mean().item()
            print(f"epoch {epoch + 1:3d} eps loss {loss:.3f} distance of samples to data {dist:.3f}")


if __name__ == "__main__":
    main()
