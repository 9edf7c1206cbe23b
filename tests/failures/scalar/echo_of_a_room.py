# code: BS212
# variable: loss
# cause: loss = error.mean() ** 2
# fix: `loss = error.abs().pow(2).mean()`
import torch
from torch import nn

torch.manual_seed(0)
clap = torch.randn(64)
heard = 0.5 * clap + 0.25 * torch.roll(clap, 3)


class Echo(nn.Module):
    """The taps of a filter that makes an echo."""

    def __init__(self, taps):
        super().__init__()
        self.taps = nn.Parameter(torch.zeros(taps))

    def forward(self, sound):
        return sound + sum(tap * torch.roll(sound, k + 1) for k, tap in enumerate(self.taps))


room = Echo(6)
optimizer = torch.optim.Adam(room.parameters(), lr=0.05)
for turn in range(20):
    error = torch.fft.fft(room(clap)) - torch.fft.fft(heard)
    loss = error.mean() ** 2
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
