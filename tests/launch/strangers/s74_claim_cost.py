"""Claim-cost model on tabular data with a mixed-precision style 'skip bad batches' guard."""
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn


@dataclass(frozen=True)
class Settings:
    rows: int = 3000
    batch: int = 100
    epochs: int = 12
    lr: float = 3e-3
    seed: int = 9


def make_claims(s):
    rng = np.random.default_rng(s.seed)
    age, power, km = rng.uniform(18, 80, s.rows), rng.uniform(40, 250, s.rows), rng.gamma(2.0, 8.0, s.rows)
    new_cars = rng.random(s.rows) < 0.0015
    km[new_cars] = 0.0
    x = np.stack([(age - 45) / 20, (power - 120) / 60, km], 1).astype(np.float32)
    cost = np.exp(0.4 * np.log1p(km) + 0.3 * (age < 25) + 0.002 * power) + rng.normal(0, 0.2, s.rows)
    return torch.from_numpy(x), torch.from_numpy(cost.astype(np.float32))


class LearnedLog(nn.Module):
    """log(scale * v) for v > 0 and a learned constant for v == 0."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))
        self.at_zero = nn.Parameter(torch.zeros(()))

    def forward(self, v):
        return torch.where(v > 0, torch.log(self.scale * v), self.at_zero)


class CostModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.km = LearnedLog()
        self.net = nn.Sequential(nn.Linear(3, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, x):
        feats = torch.cat([x[:, :2], self.km(x[:, 2:])], dim=1)
        return self.net(feats).squeeze(1)


class GuardedTrainer:
    def __init__(self, model, settings):
        self.model, self.s = model, settings
        self.opt = torch.optim.Adam(model.parameters(), lr=settings.lr)
        self.skipped = 0

    def healthy(self, loss):
        if torch.isfinite(loss):
            return True
        self.skipped += 1
        return False

    def epoch(self, x, y):
        kept = []
        for idx in torch.randperm(len(x)).split(self.s.batch):
            loss = nn.functional.mse_loss(self.model(x[idx]), y[idx])
            if not self.healthy(loss):
                continue
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            kept.append(loss.item())
        return kept


def main():
    s = Settings()
    torch.manual_seed(s.seed)
    x, y = make_claims(s)
    trainer = GuardedTrainer(CostModel(), s)
    for epoch in range(s.epochs):
        before = trainer.skipped
        kept = trainer.epoch(x, y)
        shown = f"{np.mean(kept):.4f}" if kept else "  -   "
        print(f"epoch {epoch:2d} mse {shown} batches used {len(kept):2d} skipped {trainer.skipped - before:2d}")


main()
