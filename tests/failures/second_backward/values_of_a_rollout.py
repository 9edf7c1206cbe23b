# code: BS201
# variable: buffer.val
# cause: self.val.append(val)
# fix: self.logp.append(logp.detach())
import torch
import torch.nn as nn
import torch.nn.functional as F


class ActorCritic(nn.Module):
    def __init__(self, obs=4, act=2):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(obs, 32), nn.Tanh())
        self.pi = nn.Linear(32, act)
        self.v = nn.Linear(32, 1)

    def forward(self, obs):
        h = self.body(obs)
        return torch.distributions.Categorical(logits=self.pi(h)), self.v(h).squeeze(-1)


class Buffer:
    def __init__(self):
        self.clear()

    def clear(self):
        self.obs, self.act, self.logp, self.rew, self.val = [], [], [], [], []

    def add(self, obs, act, logp, rew, val):
        self.obs.append(obs)
        self.act.append(act)
        self.logp.append(logp)
        self.rew.append(rew)
        self.val.append(val)

    def batch(self, gamma=0.95):
        returns, run = [], torch.zeros(())
        for r in reversed(self.rew):
            run = r + gamma * run
            returns.insert(0, run)
        return tuple(torch.stack(t) for t in (self.obs, self.act, self.logp, returns, self.val))


def rollout(net, buffer, steps=32):
    obs = torch.randn(4)
    for _ in range(steps):
        dist, value = net(obs)
        act = dist.sample()
        rew = (obs[0] > 0).float() * (act == 1).float() + (obs[0] <= 0).float() * (act == 0).float()
        buffer.add(obs, act, dist.log_prob(act), rew, value)
        obs = torch.randn(4)


def ppo_update(net, optim, buffer, epochs=4, clip=0.2):
    obs, act, old_logp, ret, val = buffer.batch()
    adv = ret - val
    adv = (adv - adv.mean()) / (adv.std() + 1e-8)
    for _ in range(epochs):
        dist, v = net(obs)
        ratio = (dist.log_prob(act) - old_logp).exp()
        surr = torch.min(ratio * adv, ratio.clamp(1 - clip, 1 + clip) * adv)
        loss = -surr.mean() + 0.5 * F.mse_loss(v, ret) - 0.01 * dist.entropy().mean()
        optim.zero_grad()
        loss.backward()
        optim.step()
    return loss.item()


torch.manual_seed(0)
net = ActorCritic()
optim = torch.optim.Adam(net.parameters(), lr=3e-3)
buffer = Buffer()
for it in range(10):
    rollout(net, buffer)
    print(it, ppo_update(net, optim, buffer))
    buffer.clear()
