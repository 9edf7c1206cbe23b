"""Double DQN with a Polyak target and a frozen-in-eval copy for acting, on a small grid."""
import copy
import random

import torch
import torch.nn as nn


class Grid:
    MOVES = [(0, 1), (0, -1), (1, 0), (-1, 0)]

    def __init__(self, size=5, limit=25):
        self.size, self.limit = size, limit

    def obs(self):
        x = torch.zeros(self.size, self.size)
        x[self.pos] = 1
        return x.flatten()

    def reset(self):
        self.pos, self.t = (0, 0), 0
        return self.obs()

    def step(self, a):
        self.t += 1
        dx, dy = self.MOVES[a]
        clip = lambda v: max(0, min(self.size - 1, v))
        self.pos = (clip(self.pos[0] + dx), clip(self.pos[1] + dy))
        goal = self.pos == (self.size - 1, self.size - 1)
        return self.obs(), (1.0 if goal else -0.02), goal, goal or self.t >= self.limit


class Learner:
    def __init__(self, n_obs, tau=0.02, gamma=0.95):
        self.online = nn.Sequential(nn.Linear(n_obs, 64), nn.ReLU(), nn.Linear(64, 4))
        self.target = copy.deepcopy(self.online).eval()
        for p in self.target.parameters():
            p.requires_grad = False
        self.actor = copy.deepcopy(self.target)        # what the environment sees, refreshed per episode
        self.tau, self.gamma = tau, gamma
        self.opt = torch.optim.Adam(self.online.parameters(), lr=2e-3)

    def refresh_actor(self):
        self.actor.load_state_dict(self.online.state_dict())

    def learn(self, batch):
        o, a, r, o2, end = batch
        with torch.no_grad():
            best = self.online(o2).argmax(1, keepdim=True)
            q2 = self.target(o2).gather(1, best).squeeze(1)
            y = r + self.gamma * (1 - end) * q2
        q = self.online(o).gather(1, a[:, None]).squeeze(1)
        loss = nn.functional.huber_loss(q, y)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        with torch.no_grad():
            for t, p in zip(self.target.parameters(), self.online.parameters()):
                t.lerp_(p, self.tau)
        return loss.item()


def collate(samples):
    o, a, r, o2, end = zip(*samples)
    return torch.stack(o), torch.tensor(a), torch.tensor(r), torch.stack(o2), torch.tensor(end, dtype=torch.float32)


def main(episodes=160):
    random.seed(0)
    torch.manual_seed(0)
    env, memory, eps, recent = Grid(), [], 1.0, []
    agent = Learner(25)
    for ep in range(1, episodes + 1):
        agent.refresh_actor()
        o, done, total = env.reset(), False, 0.0
        while not done:
            if random.random() < eps:
                a = random.randrange(4)
            else:
                with torch.no_grad():
                    a = int(agent.actor(o).argmax())
            o2, r, end, done = env.step(a)
            memory.append((o, a, r, o2, end))
            o, total = o2, total + r
            if len(memory) >= 200:
                agent.learn(collate(random.sample(memory, 64)))
        eps = max(0.05, eps * 0.97)
        recent.append(total)
        if ep % 20 == 0:
            print(f"episode {ep} mean return {sum(recent[-20:]) / 20:.3f} eps {eps:.2f}")


main()
