"""WGAN-GP on a ring of Gaussians: several critic steps for one generator step."""
import math

import torch
import torch.nn as nn


def ring(n, modes=8, radius=2.0):
    angle = 2 * math.pi * torch.randint(0, modes, (n,)) / modes
    return torch.stack([radius * angle.cos(), radius * angle.sin()], 1) + 0.1 * torch.randn(n, 2)


def mlp(d_in, d_out, width=64):
    return nn.Sequential(nn.Linear(d_in, width), nn.LeakyReLU(0.2), nn.Linear(width, width), nn.LeakyReLU(0.2),
                         nn.Linear(width, d_out))


def gradient_penalty(critic, real, fake):
    mix = torch.rand(len(real), 1)
    x = (mix * real + (1 - mix) * fake).requires_grad_(True)
    (g,) = torch.autograd.grad(critic(x).sum(), x, create_graph=True)
    return (g.norm(dim=1) - 1).square().mean()


class WGAN:
    def __init__(self, latent=4, n_critic=4, lam=1.0):
        self.latent, self.n_critic, self.lam = latent, n_critic, lam
        self.gen, self.critic = mlp(latent, 2), mlp(2, 1)
        self.g_opt = torch.optim.Adam(self.gen.parameters(), lr=1e-3, betas=(0.5, 0.9))
        self.c_opt = torch.optim.Adam(self.critic.parameters(), lr=1e-3, betas=(0.5, 0.9))

    def sample(self, n):
        return self.gen(torch.randn(n, self.latent))

    def critic_step(self, n):
        real = ring(n)
        with torch.no_grad():
            fake = self.sample(n)
        wasserstein = self.critic(real).mean() - self.critic(fake).mean()
        loss = -wasserstein + self.lam * gradient_penalty(self.critic, real, fake)
        self.c_opt.zero_grad()
        loss.backward()
        self.c_opt.step()
        return wasserstein.item()

    def generator_step(self, n):
        loss = -self.critic(self.sample(n)).mean()
        self.g_opt.zero_grad()
        loss.backward()
        self.g_opt.step()
        return loss.item()

    def fit(self, steps, n=128):
        for step in range(1, steps + 1):
            for _ in range(self.n_critic):
                w = self.critic_step(n)
            g = self.generator_step(n)
            if step % 75 == 0:
                with torch.no_grad():
                    r = self.sample(1000).norm(dim=1)
                print(f"step {step} wasserstein {w:.3f} generator {g:.3f} radius {r.mean():.2f} +- {r.std():.2f}")


if __name__ == "__main__":
    torch.manual_seed(0)
    WGAN().fit(450)
