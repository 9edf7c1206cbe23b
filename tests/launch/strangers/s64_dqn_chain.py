"""DQN on a chain MDP: the big reward waits at the far end."""
import copy
import random
from collections import deque

import numpy as np
import torch
import torch.nn as nn

CFG = dict(n=10, gamma=0.95, lr=2e-3, batch=64, episodes=250, sync_every=100, horizon=25, buffer=4000)


class Chain:
    def __init__(self, n, horizon):
        self.n, self.horizon = n, horizon

    def reset(self):
        self.s, self.t = 0, 0
        return self._obs()

    def _obs(self):
        v = np.zeros(self.n, dtype=np.float32)
        v[self.s] = 1
        return v

    def step(self, a):
        self.t += 1
        self.s = min(self.s + 1, self.n - 1) if a == 1 else max(self.s - 1, 0)
        r = 1.0 if self.s == self.n - 1 else (0.05 if self.s == 0 else 0.0)
        return self._obs(), r, self.t >= self.horizon


def build_q(n):
    return nn.Sequential(nn.Linear(n, 48), nn.ReLU(), nn.Linear(48, 2))


class DQN:
    def __init__(self, cfg):
        self.cfg = cfg
        self.q = build_q(cfg["n"])
        self.q_target = copy.deepcopy(self.q).requires_grad_(False)
        self.opt = torch.optim.Adam(self.q.parameters(), lr=cfg["lr"])
        self.memory = deque(maxlen=cfg["buffer"])
        self.eps = 1.0
        self.steps = 0
        self.synced = 0

    def begin_episode(self):
        self.steps = 0
        self.eps = max(0.1, self.eps * 0.985)

    def act(self, obs):
        if random.random() < self.eps:
            return random.randrange(2)
        with torch.no_grad():
            return int(self.q(torch.from_numpy(obs)).argmax())

    def remember(self, *transition):
        self.memory.append(transition)

    def learn(self):
        self.steps += 1
        if len(self.memory) < self.cfg["batch"]:
            return 0.0
        o, a, r, o2 = zip(*random.sample(self.memory, self.cfg["batch"]))
        o, o2 = torch.from_numpy(np.stack(o)), torch.from_numpy(np.stack(o2))
        a, r = torch.tensor(a), torch.tensor(r)
        with torch.no_grad():
            target = r + self.cfg["gamma"] * self.q_target(o2).max(1).values
        q = self.q(o).gather(1, a[:, None]).squeeze(1)
        loss = nn.functional.smooth_l1_loss(q, target)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        if self.steps % self.cfg["sync_every"] == 0:
            self.q_target.load_state_dict(self.q.state_dict())
            self.synced += 1
        return loss.item()


def main():
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    env, agent = Chain(CFG["n"], CFG["horizon"]), DQN(CFG)
    returns = []
    for ep in range(CFG["episodes"]):
        obs, done, total, losses = env.reset(), False, 0.0, []
        agent.begin_episode()
        while not done:
            a = agent.act(obs)
            nxt, r, done = env.step(a)
            agent.remember(obs, a, r, nxt)
            losses.append(agent.learn())
            obs, total = nxt, total + r
        returns.append(total)
        if (ep + 1) % 25 == 0:
            with torch.no_grad():
                v0 = agent.q(torch.eye(CFG["n"])[0]).max().item()
            print(f"episode {ep + 1:3d} return {np.mean(returns[-25:]):.2f} loss {np.mean(losses):.4f} "
                  f"V(start) {v0:.3f} eps {agent.eps:.2f}")


main()
