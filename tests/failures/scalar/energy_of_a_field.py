# code: BS212
# variable: objective
# cause: return self.amplitude.conj() * self.amplitude
# fix: return self.amplitude.abs() ** 2
import torch
from torch import nn


class Field:
    def __init__(self, amplitude):
        self.amplitude = amplitude

    @property
    def intensity(self):
        return self.amplitude.conj() * self.amplitude


class Mask(nn.Module):
    """The phase plate before a lens; what arrives behind it is its Fourier transform."""

    def __init__(self, size):
        super().__init__()
        self.phase = nn.Parameter(torch.zeros(size, size))

    def forward(self):
        return Field(torch.fft.fft2(torch.exp(1j * self.phase), norm="ortho"))


def roughness(phase):
    return sum((phase - phase.roll(1, axis)).pow(2).mean() for axis in (0, 1))


torch.manual_seed(0)
mask, target = Mask(16), torch.rand(16, 16)
optimizer = torch.optim.Adam(mask.parameters(), lr=0.1)
for _ in range(4):
    field = mask()
    objective = -(field.intensity * target).mean() + 1e-2 * roughness(mask.phase)
    optimizer.zero_grad()
    objective.backward()
    optimizer.step()
