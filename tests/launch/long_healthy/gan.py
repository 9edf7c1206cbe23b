"""A GAN on a ring of eight Gaussians: two optimizers, label smoothing, instance noise, an averaged generator."""

import copy
import hashlib
import math

import torch
from torch import nn
from torch.nn.utils import spectral_norm

ITERATIONS, BATCH, LATENT, MODES = 2000, 64, 8, 8
torch.manual_seed(0)


class Generator(nn.Module):
    def __init__(self, hidden=64):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(LATENT, hidden),
            nn.BatchNorm1d(hidden),
            nn.ReLU(inplace=True),
            nn.Linear(hidden, hidden),
            nn.BatchNorm1d(hidden),
            nn.ReLU(inplace=True),
            nn.Linear(hidden, 2),
        )

    def forward(self, z):
        return self.net(z)


class Discriminator(nn.Module):
    def __init__(self, hidden=64):
        super().__init__()
        self.features = nn.Sequential(
            spectral_norm(nn.Linear(2, hidden)),
            nn.LeakyReLU(0.2, inplace=True),
            spectral_norm(nn.Linear(hidden, hidden)),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Dropout(0.05),
        )
        self.head = nn.Linear(hidden, 1)

    def forward(self, x):
        return self.head(self.features(x)).squeeze(1)


def ring(count):
    angle = torch.randint(MODES, (count,)) * (2 * math.pi / MODES)
    centers = 2 * torch.stack([angle.cos(), angle.sin()], dim=1)
    return centers + 0.1 * torch.randn(count, 2)


@torch.no_grad()
def update_average(average, model, decay=0.99):
    for ours, theirs in zip(average.parameters(), model.parameters(), strict=True):
        ours.lerp_(theirs, 1 - decay)
    for ours, theirs in zip(average.buffers(), model.buffers(), strict=True):
        ours.copy_(theirs)


@torch.no_grad()
def evaluate(generator):
    generator.eval()
    samples = generator(torch.randn(512, LATENT, generator=torch.Generator().manual_seed(1)))
    generator.train()
    angle = torch.arange(MODES) * (2 * math.pi / MODES)
    centers = 2 * torch.stack([angle.cos(), angle.sin()], dim=1)
    near, mode = torch.cdist(samples, centers).min(dim=1)
    good = near < 0.5
    return good.float().mean().item(), mode[good].unique().numel()


def weights_init(module):
    if isinstance(module, nn.Linear):
        nn.init.normal_(getattr(module, "weight_orig", module.weight), 0.0, 0.15)
        nn.init.zeros_(module.bias)


generator, discriminator = Generator().apply(weights_init), Discriminator().apply(weights_init)
average = copy.deepcopy(generator).requires_grad_(False)
criterion = nn.BCEWithLogitsLoss()
optimizer_g = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.5, 0.999))
optimizer_d = torch.optim.Adam(discriminator.parameters(), lr=2e-3, betas=(0.5, 0.999))
schedulers = [torch.optim.lr_scheduler.LinearLR(o, 1.0, 0.1, ITERATIONS) for o in (optimizer_g, optimizer_d)]
smooth, zeros, ones = torch.full((BATCH,), 0.9), torch.zeros(BATCH), torch.ones(BATCH)

losses_g, losses_d = [], []
for iteration in range(1, ITERATIONS + 1):
    sigma = max(0.0, 0.3 * (1 - iteration / 500))

    optimizer_d.zero_grad()
    real = ring(BATCH)
    fake = generator(torch.randn(BATCH, LATENT))
    loss_real = criterion(discriminator(real + sigma * torch.randn_like(real)), smooth)
    loss_fake = criterion(discriminator(fake.detach() + sigma * torch.randn_like(fake)), zeros)
    loss_d = loss_real + loss_fake
    loss_d.backward()
    optimizer_d.step()

    optimizer_g.zero_grad()
    loss_g = criterion(discriminator(fake + sigma * torch.randn_like(fake)), ones)
    loss_g.backward()
    optimizer_g.step()

    for scheduler in schedulers:
        scheduler.step()
    update_average(average, generator)
    losses_g.append(loss_g.item())
    losses_d.append(loss_d.item())
    if iteration % 200 == 0:
        good, modes = evaluate(average)
        mean_g, mean_d = sum(losses_g[-200:]) / 200, sum(losses_d[-200:]) / 200
        print(f"{iteration:5d} D {mean_d:.4f} G {mean_g:.4f} good {good:.3f} modes {modes}")

states = [*generator.state_dict().values(), *discriminator.state_dict().values(), *average.state_dict().values()]
print(hashlib.sha256(b"".join(state.numpy().tobytes() for state in states)).hexdigest())
