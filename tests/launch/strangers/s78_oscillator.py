# Surrogate of a damped oscillator: (mass, damping, stiffness, t) -> displacement
import math

import torch
from torch import nn

config = {
    "model": {"width": 48, "depth": 2},
    "optim": {"lr": 0.05, "momentum": 0.9, "decay": 0.9},
    "train": {"epochs": 30, "batch": 64, "samples": 2048, "seed": 1},
}


def oscillator(n):
    m = 0.5 + torch.rand(n)
    c = 0.1 + 0.4 * torch.rand(n)
    k = 1.0 + 3.0 * torch.rand(n)
    t = 3.0 * torch.rand(n)
    omega = torch.sqrt(k / m - (c / (2 * m)) ** 2)
    u = torch.exp(-c * t / (2 * m)) * torch.cos(omega * t)
    x = torch.stack([m - 1.0, c - 0.3, (k - 2.5) / 1.5, t - 1.5], dim=1)
    return x, u.unsqueeze(1)


class Surrogate(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        dims = [4] + [width] * depth
        self.hidden = nn.ModuleList(nn.Linear(a, b) for a, b in zip(dims, dims[1:]))
        self.readout = nn.Linear(width, 1)

    def forward(self, x):
        for layer in self.hidden:
            x = torch.tanh(layer(x))
        return self.readout(x)


def make_optimizer(model, lr, momentum, decay):
    """SGD; the rate falls by the factor `decay` from epoch to epoch."""
    return torch.optim.SGD(model.parameters(), lr, momentum, weight_decay=decay)


def batches(x, y, size):
    for idx in torch.randperm(len(x)).split(size):
        yield x[idx], y[idx]


def train(cfg):
    torch.manual_seed(cfg["train"]["seed"])
    x, y = oscillator(cfg["train"]["samples"])
    x_val, y_val = oscillator(512)
    model = Surrogate(**cfg["model"])
    optimizer = make_optimizer(model, **cfg["optim"])
    for epoch in range(cfg["train"]["epochs"]):
        total = 0.0
        for xb, yb in batches(x, y, cfg["train"]["batch"]):
            loss = nn.functional.mse_loss(model(xb), yb)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            total += loss.item() * len(xb)
        if epoch % 3 == 0:
            with torch.no_grad():
                pred = model(x_val)
                rel = ((pred - y_val).norm() / y_val.norm()).item()
            size = math.sqrt(sum(p.detach().square().sum().item() for p in model.parameters()))
            print(f"epoch {epoch:2d} mse {total / len(x):.5f} relative error {rel:.3f} "
                  f"spread of predictions {pred.std().item():.2e} weights' norm {size:.2e}")


train(config)
