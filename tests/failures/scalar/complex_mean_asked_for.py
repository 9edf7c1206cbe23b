# code: BS212
# variable: loss
# cause: power = (pred - truth) ** 2
# fix: `power = (pred - truth).abs() ** 2`, and on line 19, write `loss = power.mean()`
import torch
from torch import nn

torch.manual_seed(0)


class Filter(nn.Module):
    def __init__(self, taps):
        super().__init__()
        self.taps = nn.Parameter(torch.randn(taps, dtype=torch.cfloat))

    def forward(self, signal, truth):
        pred = torch.fft.ifft(torch.fft.fft(signal) * self.taps)
        power = (pred - truth) ** 2
        loss = power.mean(dtype=torch.cfloat)
        return loss


net = Filter(16)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    signal = torch.randn(4, 16, dtype=torch.cfloat)
    loss = net(signal, 1j * signal)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())
