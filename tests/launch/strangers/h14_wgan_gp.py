"""Wasserstein GAN with gradient penalty on correlated gaussian data."""
import torch
from torch import nn


class Config:
    z_dim, x_dim, hidden = 4, 2, 64
    batch, n_critic, iterations = 96, 4, 78
    gp_weight, lr_g, lr_c = 1.0, 5e-4, 1e-3


def real_batch(n):
    z = torch.randn(n, 2)
    return torch.stack([1.5 + 0.8 * z[:, 0], -1.0 + 0.5 * z[:, 0] + 0.3 * z[:, 1]], 1)


def net(i, o, h):
    return nn.Sequential(nn.Linear(i, h), nn.LeakyReLU(0.1), nn.Linear(h, h), nn.LeakyReLU(0.1),
                         nn.Linear(h, o))


def gradient_penalty(critic, real, fake):
    mix = torch.rand(len(real), 1)
    x = (mix * real + (1 - mix) * fake).requires_grad_(True)
    score = critic(x)
    (grad,) = torch.autograd.grad(score.sum(), x, create_graph=True)
    return (grad.norm(2, dim=1) - 1).pow(2).mean()


def set_requires_grad(module, flag):
    for p in module.parameters():
        p.requires_grad_(flag)


def train(cfg):
    G, C = net(cfg.z_dim, cfg.x_dim, cfg.hidden), net(cfg.x_dim, 1, cfg.hidden)
    opt_g = torch.optim.Adam(G.parameters(), lr=cfg.lr_g, betas=(0.0, 0.9))
    opt_c = torch.optim.Adam(C.parameters(), lr=cfg.lr_c, betas=(0.0, 0.9))
    for it in range(1, cfg.iterations + 1):
        for _ in range(cfg.n_critic):
            real = real_batch(cfg.batch)
            fake = G(torch.randn(cfg.batch, cfg.z_dim)).detach()
            wasserstein = C(real).mean() - C(fake).mean()
            gp = gradient_penalty(C, real, fake)
            opt_c.zero_grad()
            (-wasserstein + cfg.gp_weight * gp).backward()
            opt_c.step()

        set_requires_grad(C, False)
        g_loss = -C(G(torch.randn(cfg.batch, cfg.z_dim))).mean()
        opt_g.zero_grad()
        g_loss.backward()
        opt_g.step()
        set_requires_grad(C, True)

        if it % 13 == 0:
            with torch.no_grad():
                x, y = G(torch.randn(1000, cfg.z_dim)), real_batch(1000)
                energy = 2 * torch.cdist(x, y).mean() - torch.cdist(x, x).mean() - torch.cdist(y, y).mean()
            print(f"iter {it} wasserstein {wasserstein.item():.3f} gp {gp.item():.4f} "
                  f"energy distance {energy.item():.4f}")


if __name__ == "__main__":
    torch.manual_seed(0)
    train(Config)
