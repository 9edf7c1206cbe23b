"""Healthy trainings that are recorded. Networks of several kinds."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from healthy_recordings import STEPS, ConvNet, Record, digits, fit
from torch import nn


def mlp(record: Record) -> None:
    """Biases that start at 0."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 10))
    for each in model:
        if isinstance(each, nn.Linear):
            nn.init.zeros_(each.bias)
    batch = digits()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def loss_of(step: int) -> torch.Tensor:
        images, labels = batch(step)
        return F.cross_entropy(model(images), labels)

    fit(record, model, optimizer, loss_of, steps=100)


def deep_mlp(record: Record) -> None:
    """Twenty layers, initialized for their activation."""
    layers: list[nn.Module] = [nn.Flatten(), nn.Linear(64, 64)]
    for _ in range(20):
        layers += [nn.ReLU(), nn.Linear(64, 64)]
    model = nn.Sequential(*layers, nn.ReLU(), nn.Linear(64, 10))
    for each in model:
        if isinstance(each, nn.Linear):
            nn.init.kaiming_normal_(each.weight)
            nn.init.zeros_(each.bias)
    batch = digits()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-4)

    def loss_of(step: int) -> torch.Tensor:
        images, labels = batch(step)
        return F.cross_entropy(model(images), labels)

    fit(record, model, optimizer, loss_of)


def convolutions_with_an_unused_head(record: Record) -> None:
    """BatchNorm, dropout, evaluation between the steps, and a head that no loss uses."""
    model, batch = ConvNet(), digits()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    with record(model, optimizer) as rec:
        for step in range(STEPS):
            model.train()
            images, labels = batch(step)
            optimizer.zero_grad()
            loss = F.cross_entropy(model(images), labels)
            loss.backward()
            rec.mark(loss=loss.item(), best_val_loss=math.inf if step < 20 else 1.0, val_loss=math.nan)
            optimizer.step()
            if step % 10 == 9:
                model.eval()
                with torch.no_grad():
                    rec.mark(val_loss=F.cross_entropy(model(images), labels).item())


class Residual(nn.Module):
    """A block whose branch is switched off at the start, by a norm of scale 0."""

    def __init__(self, width: int):
        super().__init__()
        self.conv = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        nn.init.zeros_(self.norm.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.relu(x + self.norm(self.conv(x)))


def residual_with_zero_init(record: Record) -> None:
    model = nn.Sequential(
        nn.Conv2d(1, 12, 3), *(Residual(12) for _ in range(8)), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(12, 10)
    )
    batch = digits(32)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4, nesterov=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)

    def loss_of(step: int) -> torch.Tensor:
        images, labels = batch(step)
        return F.cross_entropy(model(images), labels)

    fit(record, model, optimizer, loss_of, schedule)


def biases_before_norms(record: Record) -> None:
    """Their gradient is nothing but rounding, and with plain SGD some of them never move."""
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Conv2d(8, 8, 3),
        nn.BatchNorm2d(8),
        nn.Flatten(),
        nn.Linear(128, 10),
    )
    batch = digits()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def loss_of(step: int) -> torch.Tensor:
        images, labels = batch(step)
        return F.cross_entropy(model(images), labels)

    fit(record, model, optimizer, loss_of)


def recurrent(record: Record) -> None:
    """An LSTM over characters, with padding, tied weights and clipped gradients."""

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(30, 24, padding_idx=0)
            self.lstm = nn.LSTM(24, 24, num_layers=2, batch_first=True, dropout=0.1)
            self.out = nn.Linear(24, 30, bias=False)
            self.out.weight = self.embed.weight

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            return self.out(self.lstm(self.embed(tokens))[0])

    model = Model()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

    def loss_of(step: int) -> torch.Tensor:
        tokens = (torch.arange(25) * 7 + torch.randint(0, 29, (8, 1))) % 29 + 1
        tokens[:, 20:] = 0
        loss = F.cross_entropy(model(tokens[:, :-1]).transpose(1, 2), tokens[:, 1:], ignore_index=0)
        return loss

    fit(record, model, optimizer, loss_of)


def autoencoder(record: Record) -> None:
    """Variational, with a decoder that ends in a sigmoid, and terms of the loss that are 0 at first."""

    class Vae(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encode = nn.Sequential(nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 8))
            self.decode = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 64), nn.Sigmoid())

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
            mean, log_variance = self.encode(x).chunk(2, dim=1)
            return self.decode(mean + torch.randn_like(mean) * (log_variance / 2).exp()), mean, log_variance

    model, batch = Vae(), digits()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def loss_of(step: int) -> torch.Tensor:
        x = batch(step)[0].flatten(1)
        out, mean, log_variance = model(x)
        divergence = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum(1).mean()
        return F.binary_cross_entropy(out, x) + min(1.0, step / 20) * 1e-3 * divergence

    fit(record, model, optimizer, loss_of)


def experts(record: Record) -> None:
    """A router that leaves some experts without a token, and one that never gets any."""

    class Mixture(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.router = nn.Linear(6, 4)
            self.experts = nn.ModuleList(nn.Sequential(nn.Linear(6, 6), nn.ReLU()) for _ in range(4))
            nn.init.zeros_(self.router.bias)
            self.router.bias.data[3] = -100

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            weight, choice = self.router(x).softmax(1).max(1)
            out = torch.zeros_like(x)
            for k, expert in enumerate(self.experts):
                out[choice == k] = expert(x[choice == k]) * weight[choice == k].unsqueeze(1)
            return out

    model = nn.Sequential(Mixture(), nn.Linear(6, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def loss_of(step: int) -> torch.Tensor:
        x = torch.randn(32, 6)
        return (model(x) - x[:, :2]).square().mean()

    fit(record, model, optimizer, loss_of)


PROGRAMS = [
    mlp,
    deep_mlp,
    convolutions_with_an_unused_head,
    residual_with_zero_init,
    biases_before_norms,
    recurrent,
    autoencoder,
    experts,
]
