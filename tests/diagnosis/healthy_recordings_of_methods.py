"""Healthy trainings that are recorded. Ways to train, and what they do to the numbers."""

from __future__ import annotations

import math
from copy import deepcopy

import torch
import torch.nn.functional as F
from healthy_recordings import STEPS, ConvNet, Record, digits, fit
from torch import nn


def fine_tuning(record: Record) -> None:
    """Everything frozen but the head, under a warm-up that starts at a learning rate of 0."""
    model, batch = ConvNet(), digits()
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    model.head.requires_grad_(True)
    model.dropout.p = 0.0
    optimizer = torch.optim.AdamW(model.head.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, step / 20))

    def loss_of(step: int) -> torch.Tensor:
        images, labels = batch(step)
        return F.cross_entropy(model(images), labels)

    fit(record, model, optimizer, loss_of, schedule)


def low_rank(record: Record) -> None:
    """Adapters beside frozen weights, whose second matrix starts at 0."""

    class Adapter(nn.Module):
        def __init__(self, base: nn.Linear):
            super().__init__()
            self.base = base.requires_grad_(False)
            self.down = nn.Linear(base.in_features, 2, bias=False)
            self.up = nn.Linear(2, base.out_features, bias=False)
            nn.init.zeros_(self.up.weight)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.base(x) + self.up(self.down(x))

    model = nn.Sequential(Adapter(nn.Linear(8, 16)), nn.GELU(), Adapter(nn.Linear(16, 4)))
    optimizer = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=1e-3)
    target = torch.randn(8, 4)

    def loss_of(step: int) -> torch.Tensor:
        x = torch.randn(32, 8)
        return (model(x) - x @ target).square().mean()

    fit(record, model, optimizer, loss_of)


def accumulation(record: Record) -> None:
    """Four backward passes to a step, a scheduler, and an average of the weights beside the model."""
    model = nn.Sequential(nn.Linear(6, 12), nn.SiLU(), nn.LayerNorm(12), nn.Linear(12, 1))
    average = deepcopy(model)
    optimizer = torch.optim.NAdam(model.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, total_steps=STEPS)
    with record(model, optimizer):
        for _ in range(STEPS):
            for _ in range(4):
                x = torch.randn(8, 6)
                ((model(x) - x.prod(1, keepdim=True)).square().mean() / 4).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
            for mine, its in zip(average.parameters(), model.parameters(), strict=True):
                mine.data.lerp_(its.data, 0.1)


def bfloat16(record: Record) -> None:
    """Autocast: weights in float32, activations in bfloat16."""
    model, batch = ConvNet(), digits(32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def loss_of(step: int) -> torch.Tensor:
        images, labels = batch(step)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return F.cross_entropy(model(images), labels)

    fit(record, model, optimizer, loss_of)


def loss_scaling(record: Record) -> None:
    """A gradient scaler that begins too high: gradients overflow, its steps are skipped, the weights stay finite."""
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**127, growth_interval=5)
    with record(model, optimizer):
        for _ in range(STEPS):
            x = torch.randn(16, 8)
            optimizer.zero_grad()
            loss = (model(x) - x.sum(1, keepdim=True)).square().mean() * 8
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()


def missing_values(record: Record) -> None:
    """Data with NaN for what is missing, which the model replaces."""

    class Imputing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.default = nn.Parameter(torch.zeros(5))
            self.body = nn.Sequential(nn.Linear(5, 16), nn.GELU(), nn.Linear(16, 1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.body(torch.where(x.isnan(), self.default, x))

    model = Imputing()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    def loss_of(step: int) -> torch.Tensor:
        x = torch.randn(32, 5)
        y = x.sum(1, keepdim=True)
        x[torch.rand(32, 5) < 0.1] = math.nan
        return (model(x) - y).square().mean()

    fit(record, model, optimizer, loss_of)


def masked_actions(record: Record) -> None:
    """A policy whose output has scores of -inf for what is not allowed, from a buffer of -inf."""

    class Policy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 6))
            self.register_buffer("forbidden", torch.tensor([0, 0, -math.inf, 0, -math.inf, 0]))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.body(x) + self.forbidden

    model = Policy()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)

    def loss_of(step: int) -> torch.Tensor:
        choice = torch.distributions.Categorical(logits=model(torch.randn(16, 4)))
        action = choice.sample()
        return -(choice.log_prob(action) * torch.randn(16)).mean()

    fit(record, model, optimizer, loss_of)


def sure_classifier(record: Record) -> None:
    """A sigmoid at the end that becomes as sure as can be, on data that is easy to tell apart."""
    model = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1), nn.Sigmoid())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)

    def loss_of(step: int) -> torch.Tensor:
        y = (torch.arange(32) % 2).float().unsqueeze(1)
        x = torch.randn(32, 2) * 0.1 + (2 * y - 1) * 3
        return F.binary_cross_entropy(model(x), y)

    fit(record, model, optimizer, loss_of, steps=150)


def adversaries(record: Record) -> None:
    """A generator and a discriminator, each with an optimizer of its own."""
    generator = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 64), nn.Tanh())
    discriminator = nn.Sequential(nn.Linear(64, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
    first = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.5, 0.999))
    second = torch.optim.Adam(discriminator.parameters(), lr=1e-3, betas=(0.5, 0.999))
    batch = digits(32)
    with record({"generator": generator, "discriminator": discriminator}, [second, first]) as rec:
        for step in range(STEPS):
            real = batch(step)[0].flatten(1) * 2 - 1
            fake = generator(torch.randn(32, 4))
            second.zero_grad()
            d_loss = F.softplus(-discriminator(real)).mean() + F.softplus(discriminator(fake.detach())).mean()
            d_loss.backward()
            second.step()
            first.zero_grad()
            g_loss = F.softplus(-discriminator(fake)).mean()
            g_loss.backward()
            rec.mark(d_loss=d_loss, g_loss=g_loss)
            first.step()


PROGRAMS = [
    fine_tuning,
    low_rank,
    accumulation,
    bfloat16,
    loss_scaling,
    missing_values,
    masked_actions,
    sure_classifier,
    adversaries,
]
