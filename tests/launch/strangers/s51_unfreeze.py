"""Fine-tuning in two stages: head first, then the whole network with a decaying rate."""
import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class FinetuneConfig:
    lr: float = 0.05
    momentum: float = 0.9
    batch_size: int = 16
    epochs: int = 8
    unfreeze_epoch: int = 2
    n_train: int = 560
    seed: int = 0


def pretrain_task(n, seed, dim=16):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, dim, generator=g)
    w = torch.randn(dim, 4, generator=torch.Generator().manual_seed(100))
    return x, torch.tanh(x @ w / 2)


def downstream_task(n, seed, dim=16, noise=0.4):
    x, h = pretrain_task(n, seed, dim)
    g = torch.Generator().manual_seed(seed + 500)
    y = h[:, 0] * h[:, 1] + h[:, 2] - 0.5 * h[:, 3]
    return x, y + noise * torch.randn(n, generator=g)


class Model(nn.Module):
    def __init__(self, dim=16, width=64):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(dim, width), nn.ReLU(),
                                      nn.Linear(width, width), nn.ReLU())
        self.head = nn.Linear(width, 4)

    def forward(self, x):
        return self.head(self.backbone(x))


class Finetuner:
    def __init__(self, model, cfg):
        self.model, self.cfg = model, cfg
        self.steps_per_epoch = cfg.n_train // cfg.batch_size
        self.total = cfg.epochs * self.steps_per_epoch
        self.model.head = nn.Linear(64, 1)
        self.model.backbone.requires_grad_(False)
        self.optimizer = self.build_optimizer(self.model.head.parameters())
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer, lambda s: 0.5 * (1 + math.cos(math.pi * min(s, self.total) / self.total)))

    def build_optimizer(self, params):
        return torch.optim.SGD(params, lr=self.cfg.lr, momentum=self.cfg.momentum)

    def on_epoch_start(self, epoch):
        if epoch == self.cfg.unfreeze_epoch:
            self.model.backbone.requires_grad_(True)
            self.optimizer = self.build_optimizer(self.model.parameters())

    def fit(self, train, test):
        x, y = train
        for epoch in range(self.cfg.epochs):
            self.on_epoch_start(epoch)
            total = 0.0
            for idx in torch.randperm(len(x)).split(self.cfg.batch_size):
                loss = F.mse_loss(self.model(x[idx]).squeeze(1), y[idx])
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                self.scheduler.step()
                total += loss.item()
            with torch.no_grad():
                test_mse = F.mse_loss(self.model(test[0]).squeeze(1), test[1]).item()
            print(f"epoch {epoch} train {total / self.steps_per_epoch:.3f} test mse {test_mse:.3f}")


def pretrain(model, steps=80):
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    x, y = pretrain_task(2000, 9)
    for _ in range(steps):
        idx = torch.randint(0, len(x), (100,))
        loss = F.mse_loss(model(x[idx]), y[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(f"pretraining loss {loss.item():.3f}")
    return model


if __name__ == "__main__":
    cfg = FinetuneConfig()
    torch.manual_seed(cfg.seed)
    net = pretrain(Model())
    Finetuner(net, cfg).fit(downstream_task(cfg.n_train, 1), downstream_task(1500, 2, noise=0.0))
