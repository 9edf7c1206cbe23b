"""Advantage actor-critic on a little corridor world."""
import random
from collections import namedtuple

import torch
import torch.nn as nn
from torch.distributions import Categorical

Step = namedtuple("Step", "log_prob value reward entropy")


class Corridor:
    """Walk from the left to the goal on the right; each step costs a little."""

    def __init__(self, length=8, limit=30):
        self.length, self.limit = length, limit

    def observe(self):
        one_hot = torch.zeros(self.length)
        one_hot[self.pos] = 1.0
        return one_hot

    def reset(self):
        self.pos, self.t = random.randrange(0, self.length - 1), 0
        return self.observe()

    def step(self, action):
        self.t += 1
        self.pos = max(0, self.pos + (1 if action == 1 else -1))
        done = self.pos == self.length - 1
        reward = 1.0 if done else -0.1
        return self.observe(), reward, done or self.t >= self.limit


class ActorCritic(nn.Module):
    def __init__(self, n_obs, n_act, hidden=32):
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(n_obs, hidden), nn.Tanh(), nn.Linear(hidden, n_act))
        self.critic = nn.Sequential(nn.Linear(n_obs, hidden), nn.Tanh(), nn.Linear(hidden, 1))

    def forward(self, obs):
        return Categorical(logits=self.actor(obs)), self.critic(obs).squeeze(-1)


class Agent:
    def __init__(self, env, gamma=0.95, value_coef=0.05, entropy_coef=0.01, lr=5e-3):
        self.env, self.gamma = env, gamma
        self.value_coef, self.entropy_coef = value_coef, entropy_coef
        self.net = ActorCritic(env.length, 2)
        self.opt = torch.optim.Adam(self.net.parameters(), lr=lr)

    def rollout(self):
        obs, done, steps = self.env.reset(), False, []
        while not done:
            dist, value = self.net(obs)
            action = dist.sample()
            obs, reward, done = self.env.step(action.item())
            steps.append(Step(dist.log_prob(action), value, reward, dist.entropy()))
        return steps

    def returns(self, steps):
        out, running = [], 0.0
        for s in reversed(steps):
            running = s.reward + self.gamma * running
            out.append(running)
        return torch.tensor(out[::-1])

    def losses(self, batch):
        log_prob = torch.stack([s.log_prob for ep in batch for s in ep])
        value = torch.stack([s.value for ep in batch for s in ep])
        entropy = torch.stack([s.entropy for ep in batch for s in ep])
        target = torch.cat([self.returns(ep) for ep in batch])
        advantage = target - value
        policy_loss = -(log_prob * advantage).mean()
        value_loss = (value - target).pow(2).mean()
        return policy_loss, value_loss, entropy.mean()

    def update(self, batch):
        policy_loss, value_loss, entropy = self.losses(batch)
        loss = policy_loss + self.value_coef * value_loss - self.entropy_coef * entropy
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return policy_loss.item(), value_loss.item()


def main():
    random.seed(0)
    torch.manual_seed(0)
    agent = Agent(Corridor())
    for it in range(120):
        batch = [agent.rollout() for _ in range(6)]
        pl, vl = agent.update(batch)
        if it % 10 == 9:
            ret = sum(sum(s.reward for s in ep) for ep in batch) / len(batch)
            print(f"iter {it + 1:3d} return {ret:6.2f} policy loss {pl:9.3f} value loss {vl:9.3f}")


if __name__ == "__main__":
    main()
