# code: BS201
# variable: states
# cause: return torch.stack(states)
# fix: start = states.detach()
import torch
import torch.nn as nn
import torch.nn.functional as F


class World(nn.Module):
    """Latent dynamics model in the manner of Dreamer, tiny."""

    def __init__(self, obs=6, act=2, d=16):
        super().__init__()
        self.enc = nn.Linear(obs, d)
        self.dyn = nn.GRUCell(d + act, d)
        self.dec = nn.Linear(d, obs)
        self.rew = nn.Linear(d, 1)

    def observe(self, obs, act):
        h = torch.zeros(obs.size(1), self.dyn.hidden_size)
        states = []
        for o, a in zip(obs, act):
            h = self.dyn(torch.cat([self.enc(o), a], -1), h)
            states.append(h)
        return torch.stack(states)


def train_world(world, opt, obs, act, rew):
    states = world.observe(obs, act)
    loss = F.mse_loss(world.dec(states), obs) + F.mse_loss(world.rew(states).squeeze(-1), rew)
    opt.zero_grad()
    loss.backward()
    opt.step()
    return states, loss.item()


def imagine(world, actor, start, horizon=5):
    h, rewards = start, []
    for _ in range(horizon):
        a = torch.tanh(actor(h))
        h = world.dyn(torch.cat([h, a], -1), h)
        rewards.append(world.rew(h))
    return torch.stack(rewards)


def train_actor(world, actor, opt, states):
    start = states.reshape(-1, states.size(-1))
    loss = -imagine(world, actor, start).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss.item()


torch.manual_seed(0)
world = World()
actor = nn.Linear(16, 2)
w_opt = torch.optim.Adam(world.parameters(), lr=1e-3)
a_opt = torch.optim.Adam(actor.parameters(), lr=1e-3)
for step in range(20):
    obs, act = torch.randn(8, 16, 6), torch.randn(8, 16, 2)
    states, wl = train_world(world, w_opt, obs, act, obs[..., 0])
    al = train_actor(world, actor, a_opt, states)
print(wl, al)
