# code: BS201
# variable: roll.adv
# cause: adv = (adv - adv.mean()) / (adv.std() + 1e-6)
# fix: under torch.no_grad()
"""Clipped-surrogate policy optimisation on a tiny made-up navigation task."""

from dataclasses import dataclass

import torch
import torch.nn as nn
from torch.distributions import Categorical


@dataclass
class Config:
    obs_dim: int = 6
    n_actions: int = 3
    rollout: int = 64
    epochs: int = 4
    updates: int = 12
    clip: float = 0.2
    gamma: float = 0.95
    lr: float = 3e-3


class ActorCritic(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(cfg.obs_dim, 32), nn.Tanh())
        self.pi = nn.Linear(32, cfg.n_actions)
        self.v = nn.Linear(32, 1)

    def forward(self, obs):
        h = self.body(obs)
        return Categorical(logits=self.pi(h)), self.v(h).squeeze(-1)


class Env:
    """The action that matches the largest of the first three features pays 1."""

    def __init__(self, cfg, gen):
        self.cfg, self.gen = cfg, gen

    def batch(self, n):
        return torch.randn(n, self.cfg.obs_dim, generator=self.gen)

    def reward(self, obs, act):
        return (obs[:, :3].argmax(dim=1) == act).float()


class Rollout:
    def __init__(self, obs, act, logp, adv, ret):
        self.obs, self.act, self.logp, self.adv, self.ret = obs, act, logp, adv, ret


def collect(net, env, cfg):
    obs = env.batch(cfg.rollout)
    with torch.no_grad():
        dist, _ = net(obs)
        act = dist.sample()
        logp = dist.log_prob(act)
    rew = env.reward(obs, act)
    _, value = net(obs)
    adv = rew - value
    adv = (adv - adv.mean()) / (adv.std() + 1e-6)
    return Rollout(obs, act, logp, adv, rew)


def update(net, opt, roll, cfg):
    for _ in range(cfg.epochs):
        dist, value = net(roll.obs)
        ratio = (dist.log_prob(roll.act) - roll.logp).exp()
        surr = torch.min(ratio * roll.adv, ratio.clamp(1 - cfg.clip, 1 + cfg.clip) * roll.adv)
        loss = -surr.mean() + 0.5 * (roll.ret - value).pow(2).mean() - 0.01 * dist.entropy().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


def main():
    torch.manual_seed(0)
    cfg = Config()
    net = ActorCritic(cfg)
    opt = torch.optim.Adam(net.parameters(), lr=cfg.lr)
    env = Env(cfg, torch.Generator().manual_seed(1))
    for it in range(cfg.updates):
        roll = collect(net, env, cfg)
        update(net, opt, roll, cfg)
        print(f"update {it:2d}  reward {roll.ret.mean():.3f}")


if __name__ == "__main__":
    main()
