"""A neural controlled differential equation classifies spirals."""

import torch
import torchcde
from _digest import digest
from torch import nn

torch.manual_seed(0)


class Field(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 8 * 3), nn.Tanh())

    def forward(self, t, z):
        return self.net(z).view(z.size(0), 8, 3)


class NeuralCDE(nn.Module):
    def __init__(self):
        super().__init__()
        self.field, self.initial, self.readout = Field(), nn.Linear(3, 8), nn.Linear(8, 1)

    def forward(self, coefficients):
        path = torchcde.CubicSpline(coefficients)
        z = torchcde.cdeint(path, self.field, self.initial(path.evaluate(path.interval[0])), path.interval, rtol=1e-2)
        return self.readout(z[:, 1]).squeeze(-1)


time = torch.linspace(0, 6.28, 20)
sign = torch.where(torch.rand(64) > 0.5, 1.0, -1.0)
spiral = torch.stack([time.expand(64, 20), time.cos().expand(64, 20), sign[:, None] * time.sin()], dim=-1)
coefficients = torchcde.hermite_cubic_coefficients_with_backward_differences(spiral)
model = NeuralCDE()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for _ in range(6):
    for x, y in zip(coefficients.split(32), (sign > 0).float().split(32), strict=True):
        optimizer.zero_grad()
        loss = nn.functional.binary_cross_entropy_with_logits(model(x), y)
        loss.backward()
        optimizer.step()
print(loss.item())
print(digest(model))
