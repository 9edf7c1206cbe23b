"""A small affine-coupling flow fitted by maximum likelihood to stretched two-dimensional data."""
import math

import torch
import torch.nn as nn


def banana(n, seed):
    g = torch.Generator().manual_seed(seed)
    a = torch.randn(n, generator=g)
    b = torch.randn(n, generator=g)
    return torch.stack([20.0 * a + 50.0, 0.02 * b + 0.03 * a.square() - 8.0], dim=1)


class Rescale(nn.Module):
    """Per-dimension affine map; starts at the identity (a copy keeps the two tensors apart)."""

    def __init__(self, dim):
        super().__init__()
        zeros = nn.Parameter(torch.zeros(dim))
        self.shift = zeros.clone()
        self.log_scale = zeros.clone()

    def forward(self, x):
        z = (x - self.shift) * torch.exp(-self.log_scale)
        return z, -self.log_scale.sum().expand(len(x))


class Coupling(nn.Module):
    def __init__(self, flip, hidden=32):
        super().__init__()
        self.flip = flip
        self.net = nn.Sequential(nn.Linear(1, hidden), nn.Tanh(), nn.Linear(hidden, 2))
        nn.init.zeros_(self.net[-1].weight)
        nn.init.zeros_(self.net[-1].bias)

    def forward(self, x):
        a, b = x.flip(1).chunk(2, 1) if self.flip else x.chunk(2, 1)
        s, t = self.net(a).chunk(2, 1)
        s = 0.3 * torch.tanh(s)
        b = (b - 0.3 * torch.tanh(t)) * torch.exp(-s)
        out = torch.cat([a, b], 1)
        return (out.flip(1) if self.flip else out), -s.squeeze(1)


class Flow(nn.Module):
    def __init__(self, *layers):
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def log_prob(self, x):
        total = 0.0
        for layer in self.layers:
            x, logdet = layer(x)
            total = total + logdet
        base = -0.5 * x.square().sum(1) - math.log(2 * math.pi)
        return base + total, x


def train(flow, data, valid, epochs=40, lr=0.05):
    opt = torch.optim.Adam(flow.parameters(), lr=lr)
    for epoch in range(epochs):
        for batch in data[torch.randperm(len(data))].split(100):
            log_prob, _ = flow.log_prob(batch)
            loss = -log_prob.mean()
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(flow.parameters(), 10.0)
            opt.step()
        if epoch % 5 == 4:
            with torch.no_grad():
                lp, z = flow.log_prob(valid)
            print(f"epoch {epoch + 1:2d} nll {-lp.mean():.3f} latent mean {z.mean(0).tolist()} std {z.std(0).tolist()}")


if __name__ == "__main__":
    torch.manual_seed(0)
    train(Flow(Rescale(2), Coupling(False), Coupling(True)), banana(2000, 0), banana(500, 1))
