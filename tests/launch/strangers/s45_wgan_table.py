"""Wasserstein GAN that imitates rows of a small table (two customer segments)."""
import torch
from torch import nn, optim
from torch.nn.utils.parametrizations import spectral_norm


class Table:
    def __init__(self, dim=6, seed=0):
        g = torch.Generator().manual_seed(seed)
        self.mix = torch.randn(2, dim, dim, generator=g) * 0.35
        self.mean = torch.stack([torch.full((dim,), 1.5), torch.full((dim,), -1.0)])
        self.mean[1, ::2] = 1.0

    def sample(self, n):
        seg = (torch.rand(n) < 0.4).long()
        z = torch.randn(n, self.mean.shape[1], 1)
        return (self.mix[seg] @ z).squeeze(-1) + self.mean[seg]


class Generator(nn.Module):
    def __init__(self, z_dim=8, h=64, dim=6):
        super().__init__()
        self.z_dim = z_dim
        self.net = nn.Sequential(nn.Linear(z_dim, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU(),
                                 nn.Linear(h, dim))

    def forward(self, n):
        return self.net(torch.randn(n, self.z_dim))


class Critic(nn.Module):
    def __init__(self, dim=6, h=64):
        super().__init__()
        self.net = nn.Sequential(spectral_norm(nn.Linear(dim, h)), nn.LeakyReLU(0.2),
                                 spectral_norm(nn.Linear(h, h)), nn.LeakyReLU(0.2),
                                 spectral_norm(nn.Linear(h, 1)))

    def forward(self, x):
        return self.net(x).squeeze(1)


class WGAN:
    def __init__(self, lr_g=2e-3, lr_c=5e-3, batch=128, n_critic=3):
        self.G, self.C = Generator(), Critic()
        self.opt_g = optim.Adam(self.G.parameters(), lr=lr_g, betas=(0.5, 0.9))
        self.opt_c = optim.Adam(self.C.parameters(), lr=lr_c, betas=(0.5, 0.9))
        self.batch, self.n_critic = batch, n_critic
        self.data = Table()

    def iteration(self):
        self.opt_g.zero_grad()
        for _ in range(self.n_critic):
            self.opt_c.zero_grad()
            real, fake = self.data.sample(self.batch), self.G(self.batch)
            critic_loss = self.C(fake).mean() - self.C(real).mean()
            critic_loss.backward()
            self.opt_c.step()

        gen_loss = -self.C(self.G(self.batch)).mean()
        gen_loss.backward()
        self.opt_g.step()
        return critic_loss.item(), gen_loss.item()

    @torch.no_grad()
    def energy_distance(self, n=800):
        fake, real = self.G(n), self.data.sample(n)
        cross = torch.cdist(fake, real).mean()
        return (2 * cross - torch.cdist(fake, fake).mean() - torch.cdist(real, real).mean()).item()


def main(iterations=90):
    torch.manual_seed(1)
    gan = WGAN()
    print(f"start: energy distance {gan.energy_distance():.3f}")
    for it in range(1, iterations + 1):
        critic_loss, gen_loss = gan.iteration()
        if it % 15 == 0:
            print(f"iter {it} critic {critic_loss:.3f} generator {gen_loss:.3f} "
                  f"energy distance {gan.energy_distance():.3f}")


if __name__ == "__main__":
    main()
