"""Behaviour cloning of a steering controller from sensor readings."""
from typing import List

import torch
import torch.nn as nn


class ExpertDataset:
    """Expert steering for a car that follows a lane and avoids an obstacle."""

    def __init__(self, n: int, seed: int):
        g = torch.Generator().manual_seed(seed)
        self.obs = torch.randn(n, 16, generator=g)
        offset, heading, dist, side = self.obs[:, 0], self.obs[:, 1], self.obs[:, 2], self.obs[:, 3]
        avoid = torch.exp(-dist ** 2) * torch.sign(side)
        self.act = torch.tanh(-0.9 * offset - 0.6 * heading + 0.8 * avoid).unsqueeze(1)

    def loader(self, batch: int):
        perm = torch.randperm(len(self.obs))
        for idx in perm.split(batch):
            yield self.obs[idx], self.act[idx]


def init_weights(module: nn.Module) -> None:
    if isinstance(module, nn.Linear):
        nn.init.normal_(module.weight, mean=0.0, std=1.0)
        nn.init.zeros_(module.bias)


class Policy(nn.Module):
    def __init__(self, obs_dim: int = 16, act_dim: int = 1, hidden: List[int] = (128, 128, 128)):
        super().__init__()
        blocks, d = [], obs_dim
        for h in hidden:
            blocks.append(nn.Sequential(nn.Linear(d, h), nn.Tanh()))
            d = h
        self.blocks = nn.ModuleList(blocks)
        self.action = nn.Linear(d, act_dim)
        self.apply(init_weights)

    def forward(self, obs):
        h = obs
        for block in self.blocks:
            h = block(h)
        return torch.tanh(self.action(h))


class Cloner:
    def __init__(self, policy: Policy, lr: float = 1e-3):
        self.policy = policy
        self.optimizer = torch.optim.Adam(policy.parameters(), lr=lr)
        self.loss_fn = nn.MSELoss()

    def run_epoch(self, data: ExpertDataset, batch: int = 64) -> float:
        losses = []
        for obs, act in data.loader(batch):
            loss = self.loss_fn(self.policy(obs), act)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            losses.append(loss.item())
        return sum(losses) / len(losses)

    @torch.no_grad()
    def error(self, data: ExpertDataset) -> float:
        return self.loss_fn(self.policy(data.obs), data.act).item()


if __name__ == "__main__":
    torch.manual_seed(0)
    expert, held_out = ExpertDataset(2560, 0), ExpertDataset(1000, 1)
    cloner = Cloner(Policy())
    baseline = held_out.act.var().item()
    for epoch in range(9):
        train_loss = cloner.run_epoch(expert)
        print(f"epoch {epoch} train {train_loss:.3f} held-out {cloner.error(held_out):.3f} "
              f"(variance of actions {baseline:.3f})")
