"""Double DQN with a target network on a small grid world."""
import copy
import random
from collections import deque

import torch
import torch.nn as nn
import torch.nn.functional as F


class Grid:
    size = 4
    moves = [(0, 1), (0, -1), (1, 0), (-1, 0)]

    def reset(self):
        self.pos = (random.randrange(self.size), random.randrange(self.size))
        self.t = 0
        return self.obs()

    def obs(self):
        o = torch.zeros(self.size * self.size)
        o[self.pos[0] * self.size + self.pos[1]] = 1.0
        return o

    def step(self, a):
        dx, dy = self.moves[a]
        clip = lambda v: min(max(v, 0), self.size - 1)
        self.pos = (clip(self.pos[0] + dx), clip(self.pos[1] + dy))
        self.t += 1
        goal = self.pos == (self.size - 1, self.size - 1)
        return self.obs(), 1.0 if goal else -0.05, goal, self.t >= 20


class DQN:
    def __init__(self, gamma=0.95, lr=3e-3, sync_every=20):
        self.q = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 4))
        self.q_target = copy.deepcopy(self.q).eval()
        self.opt = torch.optim.Adam(self.q.parameters(), lr=lr)
        self.gamma, self.sync_every, self.updates = gamma, sync_every, 0
        self.memory = deque(maxlen=4000)

    @torch.no_grad()
    def act(self, obs, eps):
        if random.random() < eps:
            return random.randrange(4)
        return self.q(obs).argmax().item()

    def update(self, batch_size=64):
        batch = random.sample(self.memory, batch_size)
        obs, act, rew, nxt, done = zip(*batch)
        obs, nxt = torch.stack(obs), torch.stack(nxt)
        act = torch.tensor(act).unsqueeze(1)
        rew, done = torch.tensor(rew), torch.tensor(done, dtype=torch.float32)
        q = self.q(obs).gather(1, act).squeeze(1)
        with torch.no_grad():
            best = self.q(nxt).argmax(1, keepdim=True)
            target = rew + self.gamma * (1 - done) * self.q_target(nxt).gather(1, best).squeeze(1)
        loss = F.smooth_l1_loss(q, target)
        self.opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.q.parameters(), 10.0)
        self.opt.step()
        self.updates += 1
        if self.updates % self.sync_every == 0:
            self.q_target.load_state_dict(self.q.state_dict())
        return loss.item()


def evaluate(agent, env, episodes=40):
    total = 0.0
    for _ in range(episodes):
        obs, finished = env.reset(), False
        while not finished:
            obs, r, done, timeout = env.step(agent.act(obs, 0.0))
            total += r
            finished = done or timeout
    return total / episodes


def main(steps=1000):
    random.seed(0)
    torch.manual_seed(0)
    env, agent = Grid(), DQN()
    obs, losses = env.reset(), []
    for step in range(1, steps + 1):
        eps = max(0.1, 1.0 - step / 700)
        act = agent.act(obs, eps)
        nxt, rew, done, timeout = env.step(act)
        agent.memory.append((obs, act, rew, nxt, done))
        obs = env.reset() if done or timeout else nxt
        if step > 100 and step % 3 == 0:
            losses.append(agent.update())
        if step % 200 == 0:
            print(f"step {step} td loss {sum(losses[-50:]) / max(1, len(losses[-50:])):.4f} "
                  f"return {evaluate(agent, Grid()):.3f}")


if __name__ == "__main__":
    main()
