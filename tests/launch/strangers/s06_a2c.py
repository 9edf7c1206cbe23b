"""A2C on a tiny grid corridor."""
from dataclasses import dataclass
import torch
import torch.nn as nn
from torch.distributions import Categorical


@dataclass
class HP:
    updates: int = 150
    horizon: int = 16
    gamma: float = 0.95
    lr: float = 5e-3
    value_coef: float = 0.5
    entropy_coef: float = 0.3


class Corridor:
    def __init__(self, length=7):
        self.length = length
        self.reset()

    def reset(self):
        self.pos, self.t = 0, 0
        return self.obs()

    def obs(self):
        o = torch.zeros(self.length)
        o[self.pos] = 1
        return o

    def step(self, a):
        self.t += 1
        self.pos = max(0, self.pos + (-1, 1, 0)[a])
        # small candy at the start, big prize at the far end
        r = 0.3 if self.pos == 0 else 0.0
        done = self.t >= 24
        if self.pos == self.length - 1:
            r, done = 2.0, True
        if done:
            self.pos, self.t = 0, 0
        return self.obs(), r, done


class ActorCritic(nn.Module):
    def __init__(self, n=7):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(n, 32), nn.Tanh())
        self.actor = nn.Linear(32, 3)
        self.critic = nn.Linear(32, 1)

    def forward(self, s):
        h = self.body(s)
        return Categorical(logits=self.actor(h)), self.critic(h).squeeze(-1)


def main():
    torch.manual_seed(5)
    hp, env = HP(), Corridor()
    net = ActorCritic()
    opt = torch.optim.Adam(net.parameters(), lr=hp.lr)
    s = env.reset()
    for upd in range(hp.updates):
        logps, vals, rews, ents, dones = [], [], [], [], []
        for _ in range(hp.horizon):
            dist, v = net(s)
            a = dist.sample()
            s, r, d = env.step(a.item())
            logps.append(dist.log_prob(a))
            vals.append(v)
            rews.append(r)
            dones.append(d)
            ents.append(dist.entropy().item())
        with torch.no_grad():
            ret = net(s)[1]
        rets = []
        for r, d in zip(reversed(rews), reversed(dones)):
            ret = r + hp.gamma * ret * (0.0 if d else 1.0)
            rets.insert(0, ret)
        rets = torch.stack([torch.as_tensor(x) for x in rets])
        vals, logps = torch.stack(vals), torch.stack(logps)
        adv = (rets - vals).detach()
        policy_loss = -(logps * adv).mean()
        value_loss = (rets - vals).pow(2).mean()
        entropy = torch.tensor(ents).mean()
        loss = policy_loss + hp.value_coef * value_loss - hp.entropy_coef * entropy
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        opt.step()
        if upd % 30 == 29:
            print(f'update {upd + 1} reward/step {sum(rews) / len(rews):.3f} entropy {entropy.item():.3f}')


if __name__ == '__main__':
    main()
