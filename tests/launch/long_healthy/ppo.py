"""PPO with a shared body: rollouts of vectorized poles, generalized advantages, clipping of policy and values."""

import hashlib
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical


@dataclass
class Args:
    seed: int = 1
    envs: int = 8
    steps: int = 64
    updates: int = 125
    epochs: int = 4
    minibatches: int = 4
    lr: float = 1e-3
    gamma: float = 0.99
    gae_lambda: float = 0.95
    clip: float = 0.2
    entropy: float = 0.01
    value: float = 0.5
    max_grad_norm: float = 0.5


class Poles:
    """Carts with poles, as in CartPole; one that has fallen starts again."""

    def __init__(self, count, seed):
        self.rng = np.random.default_rng(seed)
        self.state = self.rng.uniform(-0.05, 0.05, (count, 4))
        self.age = np.zeros(count, dtype=int)

    def observe(self):
        return torch.as_tensor(self.state, dtype=torch.float32)

    def step(self, action):
        x, v, theta, omega = self.state.T
        force = np.where(action == 1, 10.0, -10.0)
        sin, cos = np.sin(theta), np.cos(theta)
        push = (force + 0.05 * omega**2 * sin) / 1.1
        turn = (9.8 * sin - cos * push) / (0.5 * (4 / 3 - 0.1 * cos**2 / 1.1))
        slide = push - 0.05 * turn * cos / 1.1
        self.state = np.stack([x + 0.02 * v, v + 0.02 * slide, theta + 0.02 * omega, omega + 0.02 * turn], axis=1)
        self.age += 1
        done = (np.abs(self.state[:, 0]) > 2.4) | (np.abs(self.state[:, 2]) > 0.21) | (self.age >= 300)
        ages = self.age[done].tolist()
        self.state[done] = self.rng.uniform(-0.05, 0.05, (done.sum(), 4))
        self.age[done] = 0
        return self.observe(), 0.1 * torch.ones(len(done)), torch.as_tensor(done, dtype=torch.float32), ages


def layer_init(layer, std=2**0.5, bias=0.0):
    nn.init.orthogonal_(layer.weight, std)
    nn.init.constant_(layer.bias, bias)
    return layer


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(layer_init(nn.Linear(4, 64)), nn.Tanh(), layer_init(nn.Linear(64, 64)), nn.Tanh())
        self.policy = layer_init(nn.Linear(64, 2), std=0.01)
        self.value = layer_init(nn.Linear(64, 1), std=1.0)

    def get_value(self, x):
        return self.value(self.body(x)).squeeze(-1)

    def get_action_and_value(self, x, action=None):
        hidden = self.body(x)
        probs = Categorical(logits=self.policy(hidden))
        if action is None:
            action = probs.sample()
        return action, probs.log_prob(action), probs.entropy(), self.value(hidden).squeeze(-1)


args = Args()
torch.manual_seed(args.seed)
np.random.seed(args.seed)
envs = Poles(args.envs, args.seed)
agent = Agent()
optimizer = torch.optim.Adam(agent.parameters(), lr=args.lr, eps=1e-5)

obs = torch.zeros(args.steps, args.envs, 4)
actions, logprobs, rewards, dones, values = (torch.zeros(args.steps, args.envs) for _ in range(5))
next_obs, next_done = envs.observe(), torch.zeros(args.envs)
returned = []
batch = args.steps * args.envs
for update in range(1, args.updates + 1):
    optimizer.param_groups[0]["lr"] = (1.0 - (update - 1) / args.updates) * args.lr

    for step in range(args.steps):
        obs[step] = next_obs
        dones[step] = next_done
        with torch.no_grad():
            action, logprob, _, value = agent.get_action_and_value(next_obs)
        values[step] = value
        actions[step] = action
        logprobs[step] = logprob
        next_obs, rewards[step], next_done, ended = envs.step(action.numpy())
        returned.extend(ended)

    with torch.no_grad():
        next_value = agent.get_value(next_obs)
        advantages = torch.zeros_like(rewards)
        last = 0
        for t in reversed(range(args.steps)):
            alive = 1.0 - (next_done if t == args.steps - 1 else dones[t + 1])
            following = next_value if t == args.steps - 1 else values[t + 1]
            delta = rewards[t] + args.gamma * following * alive - values[t]
            advantages[t] = last = delta + args.gamma * args.gae_lambda * alive * last
        returns = advantages + values

    b_obs, b_actions, b_logprobs = obs.reshape(-1, 4), actions.reshape(-1), logprobs.reshape(-1)
    b_advantages, b_returns, b_values = advantages.reshape(-1), returns.reshape(-1), values.reshape(-1)
    indices = np.arange(batch)
    clipped = []
    for _ in range(args.epochs):
        np.random.shuffle(indices)
        for mb in np.split(indices, args.minibatches):
            _, newlogprob, entropy, newvalue = agent.get_action_and_value(b_obs[mb], b_actions[mb].long())
            logratio = newlogprob - b_logprobs[mb]
            ratio = logratio.exp()
            with torch.no_grad():
                approx_kl = ((ratio - 1) - logratio).mean()
                clipped.append(((ratio - 1.0).abs() > args.clip).float().mean().item())

            adv = b_advantages[mb]
            adv = (adv - adv.mean()) / (adv.std() + 1e-8)
            pg_loss = torch.max(-adv * ratio, -adv * torch.clamp(ratio, 1 - args.clip, 1 + args.clip)).mean()
            v_unclipped = (newvalue - b_returns[mb]) ** 2
            v_clipped = b_values[mb] + torch.clamp(newvalue - b_values[mb], -args.clip, args.clip)
            v_loss = 0.5 * torch.max(v_unclipped, (v_clipped - b_returns[mb]) ** 2).mean()
            loss = pg_loss - args.entropy * entropy.mean() + args.value * v_loss

            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), args.max_grad_norm)
            optimizer.step()

    if update % 12 == 0:
        variance = b_returns.var()
        explained = float("nan") if variance == 0 else (1 - (b_returns - b_values).var() / variance).item()
        recent = sum(returned[-20:]) / len(returned[-20:])
        print(
            f"update {update} return {recent:.1f} value {v_loss.item():.3f} kl {approx_kl.item():.4f} "
            f"clipped {np.mean(clipped):.3f} explained {explained:.3f}"
        )

print(hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in agent.parameters())).hexdigest())
