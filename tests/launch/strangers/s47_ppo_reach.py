"""PPO on a one-dimensional steering task."""
import torch
import torch.nn as nn
from torch.distributions import Normal


class SteerEnv:
    """Keep a cart at the target: state = (offset, velocity), action = force."""

    def __init__(self, n):
        self.n = n

    def reset(self):
        self.x = torch.rand(self.n) * 4 - 2
        self.v = torch.zeros(self.n)
        self.t = 0
        return self.obs()

    def obs(self):
        return torch.stack([self.x, self.v], dim=1)

    def step(self, force):
        force = force.clamp(-2, 2)
        self.v = 0.6 * self.v + 0.4 * force
        self.x = self.x + 0.4 * self.v
        self.t += 1
        return self.obs(), -self.x.abs()


class ActorCritic(nn.Module):
    def __init__(self, obs_dim=2, act_dim=1, h=32):
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(obs_dim, h), nn.Tanh(), nn.Linear(h, act_dim))
        self.critic = nn.Sequential(nn.Linear(obs_dim, h), nn.Tanh(), nn.Linear(h, 1))
        self.log_std = nn.Parameter(torch.full((act_dim,), -0.5))

    def dist(self, obs):
        return Normal(self.actor(obs), self.log_std.exp())

    def value(self, obs):
        return self.critic(obs).squeeze(-1)


class PPO:
    def __init__(self, gamma=0.9, clip=0.2, epochs=4, minibatch=160, lr=4e-3, horizon=10, n_env=32):
        self.env = SteerEnv(n_env)
        self.net = ActorCritic()
        self.opt = torch.optim.Adam(self.net.parameters(), lr=lr)
        self.gamma, self.clip, self.epochs = gamma, clip, epochs
        self.minibatch, self.horizon = minibatch, horizon

    @torch.no_grad()
    def collect(self):
        obs = self.env.reset()
        data = {"obs": [], "act": [], "logp": [], "rew": []}
        for _ in range(self.horizon):
            dist = self.net.dist(obs)
            act = dist.sample()
            data["obs"].append(obs)
            data["act"].append(act)
            data["logp"].append(dist.log_prob(act))
            obs, rew = self.env.step(act.squeeze(-1))
            data["rew"].append(rew)
        ret, returns = self.net.value(obs), []
        for rew in reversed(data["rew"]):
            ret = rew + self.gamma * ret
            returns.append(ret)
        batch = {k: torch.cat(data[k]) for k in ("obs", "act", "logp")}
        batch["ret"] = torch.cat(returns[::-1])
        batch["adv"] = batch["ret"] - self.net.value(batch["obs"])
        return batch, torch.stack(data["rew"]).mean().item()

    def loss(self, mb):
        dist = self.net.dist(mb["obs"])
        ratio = (dist.log_prob(mb["act"]) - mb["logp"]).exp()
        adv = (mb["adv"] - mb["adv"].mean()) / (mb["adv"].std() + 1e-8)
        surrogate = torch.min(ratio * adv, ratio.clamp(1 - self.clip, 1 + self.clip) * adv)
        value_loss = (self.net.value(mb["obs"]) - mb["ret"]).pow(2).mean()
        return -surrogate.mean() + 0.5 * value_loss - 0.001 * dist.entropy().mean()

    def train(self, iterations):
        for it in range(iterations):
            batch, reward = self.collect()
            for _ in range(self.epochs):
                for idx in torch.randperm(len(batch["ret"])).split(self.minibatch):
                    loss = self.loss({k: v[idx] for k, v in batch.items()})
                    self.opt.zero_grad()
                    loss.backward()
                    nn.utils.clip_grad_norm_(self.net.parameters(), 0.5)
                    self.opt.step()
            if it % 8 == 7:
                print(f"iteration {it + 1:3d} loss {loss.item():.3f} mean reward {reward:.3f}")


if __name__ == "__main__":
    torch.manual_seed(0)
    PPO().train(iterations=48)
