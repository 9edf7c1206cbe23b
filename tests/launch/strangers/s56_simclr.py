"""Contrastive pretraining on synthetic spectra, judged by nearest-neighbour retrieval."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Spectra:
    """Every substance has peaks; views differ by shift, gain and noise."""

    def __init__(self, n_substances=60, length=48, seed=0):
        g = torch.Generator().manual_seed(seed)
        self.length = length
        self.centers = torch.rand(n_substances, 4, generator=g) * (length - 8) + 4
        self.heights = 0.4 + torch.rand(n_substances, 4, generator=g)

    def view(self, idx):
        t = torch.arange(self.length).float()
        shift = 1.2 * torch.randn(len(idx), 1, 1)
        gain = 0.6 + 0.8 * torch.rand(len(idx), 1)
        d = (t.view(1, 1, -1) - self.centers[idx].unsqueeze(-1) - shift) / 1.3
        x = (self.heights[idx].unsqueeze(-1) * torch.exp(-0.5 * d ** 2)).sum(1)
        drift = torch.randn(len(idx), 1) * torch.linspace(-1, 1, self.length)
        return gain * x + drift + 0.8 * torch.randn(len(idx), 1) + 0.15 * torch.randn_like(x)


class Encoder(nn.Module):
    def __init__(self, length=48, dim=32):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(length, 96), nn.ReLU(), nn.Linear(96, 64), nn.ReLU())
        self.projection = nn.Linear(64, dim)

    def forward(self, x):
        return F.normalize(self.projection(self.trunk(x)), dim=1)


class InfoNCE(nn.Module):
    def __init__(self, temperature=0.2):
        super().__init__()
        self.temperature = temperature
        self.criterion = nn.CrossEntropyLoss()

    def similarity(self, a, b):
        return F.softmax(a @ b.t() / self.temperature, dim=-1)

    def forward(self, a, b):
        targets = torch.arange(a.size(0))
        return 0.5 * (self.criterion(self.similarity(a, b), targets)
                      + self.criterion(self.similarity(b, a), targets))


class ContrastiveTrainer:
    def __init__(self, data, lr=0.005, batch=48):
        self.data, self.batch = data, batch
        self.encoder = Encoder()
        self.loss_fn = InfoNCE()
        self.optimizer = torch.optim.SGD(self.encoder.parameters(), lr=lr, momentum=0.9)

    def train(self, steps, log_every=60):
        running = 0.0
        for step in range(1, steps + 1):
            idx = torch.randperm(len(self.data.centers))[:self.batch]
            za, zb = self.encoder(self.data.view(idx)), self.encoder(self.data.view(idx))
            loss = self.loss_fn(za, zb)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            running += loss.item()
            if step % log_every == 0:
                print(f"step {step:4d} loss {running / log_every:.3f} retrieval {self.retrieval():.3f}")
                running = 0.0

    @torch.no_grad()
    def retrieval(self, repeats=5):
        idx = torch.arange(len(self.data.centers))
        hits = 0.0
        for _ in range(repeats):
            sim = self.encoder(self.data.view(idx)) @ self.encoder(self.data.view(idx)).t()
            hits += (sim.argmax(1) == idx).float().mean().item()
        return hits / repeats


if __name__ == "__main__":
    torch.manual_seed(0)
    ContrastiveTrainer(Spectra()).train(steps=300)
