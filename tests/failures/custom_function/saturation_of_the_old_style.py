# code: BS200
# variable: Saturate(self.knee, slope=self.slope)(x)
# cause: class Saturate(Function):
# fix: `return gradient * torch.where(x > ctx.knee, ctx.slope, 1.0), None, None`
"""An amplifier that saturates, after code from before 2018."""

import torch
from torch.autograd import Function


class Saturate(Function):
    """Flatter above the knee."""

    def __init__(self, knee, slope=0.1):
        super(Saturate, self).__init__()
        self.knee = knee
        self.slope = slope

    def forward(self, x):
        self.save_for_backward(x)
        return torch.where(x > self.knee, self.knee + self.slope * (x - self.knee), x)

    def backward(self, gradient):
        x, = self.saved_tensors
        return gradient * torch.where(x > self.knee, self.slope, 1.0)


class Amplifier(torch.nn.Module):
    def __init__(self, knee, slope):
        super().__init__()
        self.first, self.second = torch.nn.Linear(4, 16), torch.nn.Linear(16, 1)
        self.knee, self.slope = knee, slope

    def forward(self, signal):
        x = self.first(signal)
        x = Saturate(self.knee, slope=self.slope)(x)
        return Saturate(2.0)(self.second(x))


amplifier = Amplifier(0.5, 0.2)
optimizer = torch.optim.Adam(amplifier.parameters())
for step in range(3):
    signal = torch.randn(32, 4)
    loss = (amplifier(signal).squeeze(1) - signal.sum(1).clamp(max=1)).abs().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
