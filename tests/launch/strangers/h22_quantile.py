"""Quantile forecasts with missing targets, logged calibration and averaged weights."""
import copy
import math

import torch
import torch.nn as nn


class PinballLoss(nn.Module):
    def __init__(self, quantiles):
        super().__init__()
        self.register_buffer("q", torch.tensor(quantiles))

    def forward(self, forecast, target, observed):
        error = target.unsqueeze(1) - forecast
        pinball = torch.maximum(self.q * error, (self.q - 1) * error)
        return (pinball * observed.unsqueeze(1)).sum() / (observed.sum().clamp(min=1) * len(self.q))

    @torch.no_grad()
    def coverage(self, forecast, target):
        return [(target <= forecast[:, i]).float().mean().item() for i in range(len(self.q))]


class QuantileNet(nn.Module):
    def __init__(self, d_in, n_quantiles, h=64):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(d_in, h), nn.SiLU(), nn.Linear(h, h), nn.SiLU())
        self.median = nn.Linear(h, 1)
        self.spread = nn.Linear(h, n_quantiles - 1)

    def forward(self, x):
        h = self.body(x)
        widths = nn.functional.softplus(self.spread(h))
        half = widths.shape[1] // 2
        mid = self.median(h)
        lower = mid - widths[:, :half].flip(1).cumsum(1).flip(1)
        upper = mid + widths[:, half:].cumsum(1)
        return torch.cat([lower, mid, upper], 1)


class WeightAverage:
    def __init__(self, model, decay=0.97):
        self.model = copy.deepcopy(model).requires_grad_(False)
        self.decay = decay

    @torch.no_grad()
    def update(self, model):
        for a, p in zip(self.model.parameters(), model.parameters()):
            a.lerp_(p, 1 - self.decay)


def demand(n, seed, missing=0.2):
    g = torch.Generator().manual_seed(seed)
    x = torch.rand(n, 3, generator=g) * 4 - 2
    y = torch.sin(2 * x[:, 0]) + 0.5 * x[:, 1] + (0.2 + 0.3 * x[:, 2].abs()) * torch.randn(n, generator=g)
    observed = (torch.rand(n, generator=g) > missing).float()
    return x, torch.where(observed.bool(), y, torch.tensor(float("nan"))), observed, y


def main(epochs=12, batch=80, lr=5e-3):
    torch.manual_seed(0)
    x, target, observed, _ = demand(2400, 0)
    xt, _, _, yt = demand(1500, 1)
    target = torch.nan_to_num(target, nan=0.0)
    quantiles = [0.05, 0.25, 0.5, 0.75, 0.95]
    model, criterion = QuantileNet(3, len(quantiles)), PinballLoss(quantiles)
    average = WeightAverage(model)
    opt = torch.optim.Adam(model.parameters(), lr=lr)
    steps = epochs * math.ceil(len(x) / batch)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=steps, eta_min=0.0)
    constant = torch.tensor(quantiles).expand(len(x), -1) * 4 - 2
    reference = criterion(constant, target, observed)
    for epoch in range(epochs):
        total = 0.0
        for idx in torch.randperm(len(x)).split(batch):
            loss = criterion(model(x[idx]), target[idx], observed[idx]) / reference
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
            average.update(model)
            total += loss.item()
        with torch.no_grad():
            forecast = average.model(xt)
            mae = (forecast[:, 2] - yt).abs().mean().item()
        cov = " ".join(f"{c:.2f}" for c in criterion.coverage(forecast, yt))
        print(f"epoch {epoch} skill loss {total * batch / len(x):.4f} (reference {reference:.3f}) median MAE {mae:.3f} coverage {cov}")


if __name__ == "__main__":
    main()
