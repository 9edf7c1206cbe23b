# code: BS201
# variable: fake
# cause: fake = gan.sample(real.size(0))
# fix: fake.detach()
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def make_generator(z_dim, out_dim):
    return nn.Sequential(nn.Linear(z_dim, 64), nn.LeakyReLU(0.2), nn.Linear(64, out_dim))


def make_critic(in_dim):
    return nn.Sequential(nn.Linear(in_dim, 64), nn.LeakyReLU(0.2), nn.Linear(64, 1))


class WGAN:
    def __init__(self, z_dim=8, x_dim=2, lr=1e-3):
        self.z_dim = z_dim
        self.gen = make_generator(z_dim, x_dim)
        self.critic = make_critic(x_dim)
        self.opt_g = torch.optim.RMSprop(self.gen.parameters(), lr=lr)
        self.opt_c = torch.optim.RMSprop(self.critic.parameters(), lr=lr)

    def sample(self, n):
        return self.gen(torch.randn(n, self.z_dim))

    def critic_step(self, real, fake):
        loss = self.critic(fake).mean() - self.critic(real).mean()
        self.opt_c.zero_grad()
        loss.backward()
        self.opt_c.step()
        with torch.no_grad():
            for p in self.critic.parameters():
                p.clamp_(-0.05, 0.05)
        return loss.item()

    def generator_step(self, fake):
        loss = -self.critic(fake).mean()
        self.opt_g.zero_grad()
        loss.backward()
        self.opt_g.step()
        return loss.item()


def ring(n):
    t = torch.rand(n) * 6.2832
    return torch.stack([t.cos(), t.sin()], 1) + 0.05 * torch.randn(n, 2)


def main():
    torch.manual_seed(1)
    gan = WGAN()
    loader = DataLoader(TensorDataset(ring(512)), batch_size=64, shuffle=True)
    for epoch in range(3):
        for (real,) in loader:
            fake = gan.sample(real.size(0))
            for _ in range(3):
                c = gan.critic_step(real, fake)
            g = gan.generator_step(fake)
        print(epoch, round(c, 3), round(g, 3))


main()
