"""Sensor selection: learn which of many sensors are needed to predict a reading."""
from dataclasses import dataclass

import torch
import torch.nn as nn


@dataclass
class Config:
    n_sensors: int = 60
    n_useful: int = 5
    n_train: int = 240
    batch_size: int = 40
    epochs: int = 40
    lr: float = 1e-2
    lam: float = 0.012
    seed: int = 11


def synth(cfg, n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, cfg.n_sensors, generator=g)
    u = x[:, :cfg.n_useful]
    y = u[:, 0] * 1.2 - u[:, 1] + torch.sin(2 * u[:, 2]) + 0.7 * u[:, 3] * u[:, 4]
    return x, y + 0.3 * torch.randn(n, generator=g)


class GatedRegressor(nn.Module):
    def __init__(self, n_sensors, hidden=48):
        super().__init__()
        self.gate_logits = nn.Parameter(torch.full((n_sensors,), 1.0))
        self.net = nn.Sequential(nn.Linear(n_sensors, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    @property
    def gates(self):
        return torch.sigmoid(self.gate_logits)

    def forward(self, x):
        return self.net(x * self.gates).squeeze(-1)

    def complexity(self):
        """Number of sensors the model is using."""
        return (self.gates > 0.5).float().sum()


class Experiment:
    def __init__(self, cfg):
        torch.manual_seed(cfg.seed)
        self.cfg = cfg
        self.train_data = synth(cfg, cfg.n_train, 0)
        self.test_data = synth(cfg, 1000, 1)
        self.model = GatedRegressor(cfg.n_sensors)
        self.optimizer = torch.optim.Adam([
            {"params": self.model.net.parameters(), "lr": cfg.lr, "weight_decay": 1e-2},
            {"params": [self.model.gate_logits], "lr": 5 * cfg.lr},
        ])

    def run_epoch(self):
        x, y = self.train_data
        perm = torch.randperm(len(x))
        total = 0.0
        for idx in perm.split(self.cfg.batch_size):
            fit = nn.functional.mse_loss(self.model(x[idx]), y[idx])
            loss = fit + self.cfg.lam * self.model.complexity()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            total += loss.item() * len(idx)
        return total / len(x)

    @torch.no_grad()
    def report(self):
        x, y = self.test_data
        mse = nn.functional.mse_loss(self.model(x), y).item()
        open_gates = self.model.gates > 0.5
        useful = open_gates[:self.cfg.n_useful].sum().item()
        return mse, open_gates.sum().item(), useful


if __name__ == "__main__":
    exp = Experiment(Config())
    for epoch in range(exp.cfg.epochs):
        loss = exp.run_epoch()
        if epoch % 10 == 9:
            mse, n_open, useful = exp.report()
            print(f"epoch {epoch + 1:3d} loss {loss:.3f} test mse {mse:.3f} "
                  f"open sensors {n_open} (useful {useful})")
