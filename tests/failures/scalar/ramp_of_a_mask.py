# code: BS212
# variable: loss
# cause: power = error.pow(2)
# fix: `power = error.abs().square()`, and on line 20, write `shifted = power * abs(self.ramp)`
import torch
from torch import nn

torch.manual_seed(0)


class Mask(nn.Module):
    def __init__(self, taps):
        super().__init__()
        self.taps = nn.Parameter(torch.ones(taps, dtype=torch.cfloat))
        self.ramp = torch.exp(1j * torch.linspace(0, 1, taps))

    def loss(self, signal, truth):
        error = torch.fft.fft(signal) * self.taps - truth
        power = error.pow(2)
        shifted = power * self.ramp
        return shifted.sum() / len(signal)


net = Mask(16)
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
for _ in range(3):
    signal = torch.randn(4, 16)
    loss = net.loss(signal, torch.fft.fft(signal) * 1j)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())
