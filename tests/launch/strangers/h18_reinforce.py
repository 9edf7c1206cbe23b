"""REINFORCE with a learnt baseline on a contextual multi-step bandit."""
import torch
import torch.nn as nn
from torch.distributions import Categorical


class Corridor:
    """Agents walk left, stay or right; the context tells which end is rewarded."""

    def __init__(self, n=48, length=7, horizon=8):
        self.n, self.length, self.horizon = n, length, horizon

    def reset(self):
        self.goal = torch.randint(0, 2, (self.n,))
        self.pos = torch.full((self.n,), self.length // 2)
        return self.obs()

    def obs(self):
        pos = self.pos.float() / (self.length - 1) * 2 - 1
        return torch.stack([pos, self.goal.float() * 2 - 1, pos * (self.goal.float() * 2 - 1)], 1)

    def step(self, action):
        self.pos = (self.pos + action - 1).clamp(0, self.length - 1)
        target = self.goal * (self.length - 1)
        return self.obs(), (self.pos == target).float() - 0.02 * (action != 1).float()


class Agent(nn.Module):
    def __init__(self, h=32):
        super().__init__()
        self.policy = nn.Sequential(nn.Linear(3, h), nn.Tanh(), nn.Linear(h, 3))
        self.baseline = nn.Sequential(nn.Linear(4, h), nn.Tanh(), nn.Linear(h, 1))

    def value(self, obs, t, horizon):
        clock = torch.full((len(obs), 1), t / horizon)
        return self.baseline(torch.cat([obs, clock], 1)).squeeze(1)


def rollout(env, agent):
    obs, logps, values, rewards, entropies = env.reset(), [], [], [], []
    for t in range(env.horizon):
        dist = Categorical(logits=agent.policy(obs))
        action = dist.sample()
        logps.append(dist.log_prob(action))
        entropies.append(dist.entropy())
        values.append(agent.value(obs, t, env.horizon))
        obs, reward = env.step(action)
        rewards.append(reward)
    return map(torch.stack, (logps, values, rewards, entropies))


def discounted(rewards, gamma):
    out, acc = [], torch.zeros_like(rewards[0])
    for r in rewards.flip(0):
        acc = r + gamma * acc
        out.append(acc)
    return torch.stack(out).flip(0)


def main(iterations=150, gamma=0.97, entropy_weight=0.01):
    torch.manual_seed(0)
    env, agent = Corridor(), Agent()
    opt = torch.optim.Adam([
        {"params": agent.policy.parameters(), "lr": 1e-2},
        {"params": agent.baseline.parameters(), "lr": 2e-2},
    ])
    for it in range(1, iterations + 1):
        logps, values, rewards, entropies = rollout(env, agent)
        returns = discounted(rewards, gamma)
        advantage = (returns - values).detach()
        policy_loss = -(logps * advantage).mean() - entropy_weight * entropies.mean()
        value_loss = (values - returns).pow(2).mean()
        opt.zero_grad()
        (policy_loss + 0.5 * value_loss).backward()
        opt.step()
        if it % 25 == 0:
            print(f"iter {it} return {rewards.sum(0).mean().item():.3f} policy {policy_loss.item():+.3f} "
                  f"value {value_loss.item():.3f} entropy {entropies.mean().item():.3f}")


if __name__ == "__main__":
    main()
