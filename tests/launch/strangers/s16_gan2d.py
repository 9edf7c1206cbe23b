import torch
import torch.nn as nn

torch.manual_seed(7)


def mlp(i, h, o):
    return nn.Sequential(nn.Linear(i, h), nn.LeakyReLU(0.2), nn.Linear(h, h), nn.LeakyReLU(0.2), nn.Linear(h, o))


class GAN:
    def __init__(self, z=4):
        self.z = z
        self.G, self.D = mlp(z, 32, 2), mlp(2, 32, 1)
        self.opt_g = torch.optim.Adam(self.G.parameters(), lr=1e-3, betas=(0.5, 0.999))
        self.opt_d = torch.optim.Adam(self.D.parameters(), lr=1e-3, betas=(0.5, 0.999))
        self.bce = nn.BCEWithLogitsLoss()

    def train_step(self, real):
        n = real.size(0)
        ones, zeros = torch.ones(n, 1), torch.zeros(n, 1)

        self.opt_g.zero_grad()
        fake = self.G(torch.randn(n, self.z))
        g_loss = self.bce(self.D(fake), ones)
        g_loss.backward()
        self.opt_g.step()

        d_loss = self.bce(self.D(real), ones) + self.bce(self.D(fake.detach()), zeros)
        d_loss.backward()
        self.opt_d.step()
        self.opt_d.zero_grad()
        return d_loss.item(), g_loss.item()


def ring(n):
    k = torch.randint(0, 8, (n,)) * (2 * torch.pi / 8)
    return torch.stack([k.cos(), k.sin()], 1) * 2 + 0.05 * torch.randn(n, 2)


gan = GAN()
for it in range(1, 251):
    d, g = gan.train_step(ring(64))
    if it % 50 == 0:
        with torch.no_grad():
            acc = ((gan.D(ring(256)) > 0).float().mean() + (gan.D(gan.G(torch.randn(256, 4))) < 0).float().mean()) / 2
            r = gan.G(torch.randn(256, 4)).norm(dim=1).mean()
        print(f'iter {it} D {d:.3f} G {g:.3f} D-acc {acc:.2f} radius {r:.2f}')
