"""VAE on small images; the latent codes of a probe set are tracked over training."""
import resource

import torch
import torch.nn as nn
import torch.nn.functional as F


def bars(n, seed, size=10):
    """Images with one random horizontal and one vertical bar."""
    g = torch.Generator().manual_seed(seed)
    img = torch.zeros(n, size, size)
    r = torch.randint(0, size, (n,), generator=g)
    c = torch.randint(0, size, (n,), generator=g)
    rows = torch.arange(n)
    img[rows, r] = 1.0
    img[rows, :, c] = 1.0
    return (img + 0.05 * torch.rand(n, size, size, generator=g)).clamp(0, 1).flatten(1)


class VAE(nn.Module):
    def __init__(self, d=100, h=192, z=6):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(d, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU())
        self.mu, self.logvar = nn.Linear(h, z), nn.Linear(h, z)
        self.dec = nn.Sequential(nn.Linear(z, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU(),
                                 nn.Linear(h, d))

    def encode(self, x):
        h = self.enc(x)
        return self.mu(h), self.logvar(h)

    def forward(self, x):
        mu, logvar = self.encode(x)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        return self.dec(z), mu, logvar


def elbo(logits, x, mu, logvar, beta):
    rec = F.binary_cross_entropy_with_logits(logits, x, reduction="none").sum(1).mean()
    kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(1).mean()
    return rec + beta * kl, rec, kl


class LatentTracker:
    """Stores where a fixed probe set lies in latent space, for a movie later on."""

    def __init__(self, model, probe, every=2):
        self.model = model
        self.probe = probe
        self.every = every
        self.frames = []

    def on_step(self, step):
        if step % self.every == 0:
            mu, _ = self.model.encode(self.probe)
            self.frames.append(mu)

    def drift(self):
        return (self.frames[-1] - self.frames[0]).norm(dim=1).mean().item()


class Trainer:
    def __init__(self, model, tracker, lr=2e-3, batch=64):
        self.model, self.tracker, self.batch = model, tracker, batch
        self.opt = torch.optim.Adam(model.parameters(), lr=lr)
        self.step = 0

    def fit(self, x, epochs):
        for epoch in range(epochs):
            stats = torch.zeros(3)
            batches = torch.randperm(len(x)).split(self.batch)
            for idx in batches:
                logits, mu, logvar = self.model(x[idx])
                loss, rec, kl = elbo(logits, x[idx], mu, logvar, beta=min(1.0, epoch / 3))
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
                self.step += 1
                self.tracker.on_step(self.step)
                stats += torch.tensor([loss.item(), rec.item(), kl.item()]) / len(batches)
            rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(f"epoch {epoch} loss {stats[0]:.2f} rec {stats[1]:.2f} kl {stats[2]:.2f} "
                  f"drift {self.tracker.drift():.2f} rss {rss:.0f} MB")


if __name__ == "__main__":
    torch.manual_seed(0)
    vae = VAE()
    Trainer(vae, LatentTracker(vae, bars(1000, 1))).fit(bars(1280, 0), epochs=9)
