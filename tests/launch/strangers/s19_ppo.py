"""PPO clip objective on a continuous bandit-like control task, separate actor and critic."""
import torch
import torch.nn as nn
from torch.distributions import Normal

torch.manual_seed(0)


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.mu = nn.Sequential(nn.Linear(3, 32), nn.Tanh(), nn.Linear(32, 1))
        self.log_std = nn.Parameter(torch.zeros(1) - 0.5)

    def forward(self, s):
        return Normal(self.mu(s), self.log_std.exp())


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.v = nn.Sequential(nn.Linear(3, 32), nn.Tanh(), nn.Linear(32, 1))

    def forward(self, s):
        return self.v(s)


actor, critic = Actor(), Critic()
opt_a = torch.optim.Adam(actor.parameters(), lr=3e-3)
opt_c = torch.optim.Adam(critic.parameters(), lr=1e-2)


def rollout(n=64):
    s = torch.randn(n, 3)
    with torch.no_grad():
        d = actor(s)
        a = d.sample()
        logp = d.log_prob(a).squeeze(-1)
    goal = 0.8 * s[:, 0] - 0.4 * s[:, 1]
    r = -(a.squeeze(-1) - goal) ** 2 + 2.0 * s[:, 2]
    return s, a, logp, r


for it in range(60):
    s, a, old_logp, ret = rollout()
    with torch.no_grad():
        adv = ret - critic(s).squeeze(-1)
        adv = (adv - adv.mean()) / (adv.std() + 1e-8)
    for _ in range(4):
        logp = actor(s).log_prob(a).squeeze(-1)
        ratio = (logp - old_logp).exp()
        actor_loss = -torch.min(ratio * adv, ratio.clamp(0.8, 1.2) * adv).mean()
        opt_a.zero_grad()
        actor_loss.backward()
        opt_a.step()

        critic_loss = (critic(s) - ret).pow(2).mean()
        opt_c.zero_grad()
        critic_loss.backward()
        opt_c.step()
    if it % 10 == 9:
        with torch.no_grad():
            ev = 1 - (ret - critic(s).squeeze(-1)).var() / ret.var()
        print(f'iter {it + 1} return {ret.mean():.3f} critic {critic_loss.item():.3f} explained var {ev:.3f}')
