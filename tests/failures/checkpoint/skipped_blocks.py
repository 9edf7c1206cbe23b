# code: BS210
# variable: net.stages.0
# cause: return self.training and random.random() < self.p
# fix: torch.rand(())
"""Deep net with stochastic depth and activation checkpointing."""

import random

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

CFG = dict(d=10, width=32, depth=6, classes=3, drop=0.5, batch=40, epochs=4, lr=2e-3)


class DropPath(nn.Module):
    """Skips a whole branch with probability p while training."""

    def __init__(self, p):
        super().__init__()
        self.p = p

    def skip(self):
        return self.training and random.random() < self.p


class Block(nn.Module):
    def __init__(self, width, p):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.fc1, self.fc2 = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.drop = DropPath(p)

    def forward(self, x):
        if self.drop.skip():
            return x * 1.0
        return x + self.fc2(F.gelu(self.fc1(self.norm(x))))


class Stage(nn.Module):
    def __init__(self, width, n, p):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width, p) for _ in range(n))

    def forward(self, x):
        for b in self.blocks:
            x = b(x)
        return x


class DeepNet(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.stem = nn.Linear(cfg["d"], cfg["width"])
        half = cfg["depth"] // 2
        self.stages = nn.ModuleList(Stage(cfg["width"], half, cfg["drop"]) for _ in range(2))
        self.head = nn.Linear(cfg["width"], cfg["classes"])

    def forward(self, x):
        x = self.stem(x)
        for s in self.stages:
            x = checkpoint(s, x, use_reentrant=False)
        return self.head(x)


def dataset(cfg, n=320):
    g = torch.Generator().manual_seed(14)
    x = torch.randn(n, cfg["d"], generator=g)
    w = torch.randn(cfg["d"], cfg["classes"], generator=g)
    return TensorDataset(x, (x @ w).argmax(1))


def main(cfg):
    random.seed(0)
    torch.manual_seed(0)
    loader = DataLoader(dataset(cfg), batch_size=cfg["batch"], shuffle=True)
    net = DeepNet(cfg)
    opt = torch.optim.AdamW(net.parameters(), lr=cfg["lr"])
    for epoch in range(cfg["epochs"]):
        total = 0.0
        for x, y in loader:
            loss = F.cross_entropy(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        print(f"epoch {epoch} loss {total / len(loader):.3f}")


if __name__ == "__main__":
    main(CFG)
