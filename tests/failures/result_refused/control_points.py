# code: BS219
# variable: model.points
# cause: return torch.from_numpy(basis.astype(np.float32) @ np.asarray(points))
# fix: torch.as_tensor(basis, dtype=torch.float32) @ points
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class BlendShapes(nn.Module):
    """Fits a curve by control points that are placed with scipy-like numpy code."""

    def __init__(self, n=6):
        super().__init__()
        self.points = nn.Parameter(torch.randn(n, 2) * 0.1)

    def forward(self, t):
        return bezier(self.points, t)


def binomial(n):
    row = np.ones(1)
    for _ in range(n):
        row = np.convolve(row, [1, 1])
    return row


def bezier(points, t):
    n = len(points) - 1
    k = np.arange(n + 1)
    basis = binomial(n) * t.numpy()[:, None] ** k * (1 - t.numpy()[:, None]) ** (n - k)
    return torch.from_numpy(basis.astype(np.float32) @ np.asarray(points))


def target_curve(t):
    return torch.stack([t, torch.sin(3 * t)], 1)


def smoothness(points):
    return (points[2:] - 2 * points[1:-1] + points[:-2]).pow(2).sum()


def fit(steps=100):
    torch.manual_seed(0)
    t = torch.linspace(0, 1, 50)
    model = BlendShapes()
    opt = torch.optim.Adam(model.parameters(), lr=0.05)
    for step in range(steps):
        curve = model(t)
        loss = F.mse_loss(curve, target_curve(t)) + 1e-3 * smoothness(model.points)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 20 == 0:
            print(step, loss.item())


fit()
