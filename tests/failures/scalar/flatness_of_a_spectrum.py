# code: BS212
# variable: loss
# cause: self.power = spectrum.conj() * spectrum
# fix: self.power = spectrum.abs() ** 2
import torch
from torch import nn


class Flatness(nn.Module):
    """Penalizes a spectrum that is not flat."""

    def forward(self, signal):
        spectrum = torch.fft.fft(signal)
        self.power = spectrum.conj() * spectrum
        share = self.power / self.power.sum()
        return torch.square(share - 1 / len(signal)).sum()


signal = nn.Parameter(torch.randn(16))
optimizer = torch.optim.Adam([signal])
flatness = Flatness()
for _ in range(3):
    loss = 0.1 * signal.square().mean() + flatness(signal)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
