"""Off-policy actor-critic from small images; the encoder is trained by the critic."""
import argparse
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F


class BlobEnv:
    """An image shows a blob; the reward is high when the action points at it."""

    def __init__(self, size=10, noise=0.1):
        self.size, self.noise = size, noise

    def reset(self, n):
        self.pos = torch.rand(n, 2) * 2 - 1
        return self.render()

    def render(self):
        axis = torch.linspace(-1, 1, self.size)
        dx = (axis.view(1, 1, -1) - self.pos[:, 0].view(-1, 1, 1)) ** 2
        dy = (axis.view(1, -1, 1) - self.pos[:, 1].view(-1, 1, 1)) ** 2
        img = torch.exp(-(dx + dy) / 0.1)
        return (img + self.noise * torch.randn_like(img)).unsqueeze(1)

    def step(self, action):
        reward = 1.0 - 2.0 * ((action - self.pos) ** 2).sum(1, keepdim=True)
        self.pos = (self.pos + 0.3 * torch.randn_like(self.pos)).clamp(-1, 1)
        return self.render(), reward


class Encoder(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(1, 8, 3, stride=2), nn.ReLU(), nn.Flatten())
        self.fc = nn.Sequential(nn.Linear(8 * 16, dim), nn.LayerNorm(dim), nn.Tanh())

    def forward(self, img):
        return self.fc(self.conv(img))


def mlp(i, o, h=64):
    return nn.Sequential(nn.Linear(i, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU(), nn.Linear(h, o))


class Agent:
    def __init__(self, args):
        self.encoder, self.actor, self.critic = Encoder(), mlp(32, 2), mlp(34, 1)
        self.critic_target = copy.deepcopy(self.critic)
        self.encoder_target = copy.deepcopy(self.encoder)
        self.critic_opt = torch.optim.Adam(
            list(self.encoder.parameters()) + list(self.critic.parameters()), lr=args.lr)
        self.actor_opt = torch.optim.Adam(self.actor.parameters(), lr=args.lr)
        self.gamma, self.tau = args.gamma, 0.05

    def policy(self, z):
        return torch.tanh(self.actor(z))

    def update_critic(self, obs, act, rew, nxt):
        with torch.no_grad():
            z2 = self.encoder_target(nxt)
            target = rew + self.gamma * self.critic_target(torch.cat([z2, self.policy(z2)], 1))
        q = self.critic(torch.cat([self.encoder(obs), act], 1))
        loss = F.mse_loss(q, target)
        self.critic_opt.zero_grad()
        loss.backward()
        self.critic_opt.step()
        return loss.item()

    def update_actor(self, obs):
        for p in self.critic.parameters():
            p.requires_grad = False
        z = self.encoder(obs).detach()
        loss = -self.critic(torch.cat([z, self.policy(z)], 1)).mean()
        self.actor_opt.zero_grad()
        loss.backward()
        self.actor_opt.step()
        return loss.item()

    @torch.no_grad()
    def soft_update(self):
        for net, tgt in ((self.critic, self.critic_target), (self.encoder, self.encoder_target)):
            for p, q in zip(net.parameters(), tgt.parameters()):
                q.lerp_(p, self.tau)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--actor-start", type=int, default=25)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--gamma", type=float, default=0.3)
    parser.add_argument("--lr", type=float, default=2e-3)
    args = parser.parse_args()
    torch.manual_seed(0)
    env, agent = BlobEnv(), Agent(args)
    critic_loss = 0.0
    for step in range(args.steps):
        obs = env.reset(args.batch)
        act = torch.rand(args.batch, 2) * 2 - 1
        nxt, rew = env.step(act)
        critic_loss += agent.update_critic(obs, act, rew, nxt) / 25
        if step >= args.actor_start:
            agent.update_actor(obs)
        agent.soft_update()
        if step % 25 == 24:
            with torch.no_grad():
                _, score = env.step(agent.policy(agent.encoder(env.reset(300))))
            print(f"step {step + 1:3d} critic loss {critic_loss:.3f} mean reward {score.mean():.3f}")
            critic_loss = 0.0


if __name__ == "__main__":
    main()
