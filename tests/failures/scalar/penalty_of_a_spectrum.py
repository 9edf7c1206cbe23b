# code: BS212
# variable: total
# cause: tilt = decay * spectrum**2
# fix: tilt = decay * spectrum.abs() ** 2
import torch
from torch import nn

torch.manual_seed(2)


class SmoothLoss:
    """The error of a signal, and how much of it lies in high frequencies."""

    def __init__(self, strength):
        self.strength = strength

    def of(self, signal, wanted):
        spectrum = torch.fft.rfft(signal - wanted, dim=-1)
        bins = torch.arange(spectrum.shape[-1])
        decay = 1 + bins**2 / bins.numel()
        tilt = decay * spectrum**2
        return torch.square(signal - wanted).mean() + self.strength * tilt.sum()


model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
criterion = SmoothLoss(1e-3)
for _ in range(3):
    noisy = torch.randn(4, 16)
    total = criterion.of(model(noisy), noisy.cumsum(-1))
    optimizer.zero_grad()
    total.backward()
    optimizer.step()
