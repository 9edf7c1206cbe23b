# code: BS200
# variable: loss
# cause: return Delayed.apply(signal, [self.early, self.late])
# fix: `return Delayed.apply(signal, self.early, self.late)`
"""A filter with two taps, whose weights are given as one list."""

import torch
from torch import nn


class Delayed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, signal, taps):
        ctx.save_for_backward(signal)
        ctx.taps = taps
        return sum(tap * signal.roll(k) for k, tap in enumerate(taps))

    @staticmethod
    def backward(ctx, grad):
        (signal,) = ctx.saved_tensors
        of_signal = sum(tap * grad.roll(-k) for k, tap in enumerate(ctx.taps))
        return of_signal, [(grad * signal.roll(k)).sum() for k in range(len(ctx.taps))]


class Filter(nn.Module):
    def __init__(self):
        super().__init__()
        self.early = nn.Parameter(torch.tensor(0.5))
        self.late = nn.Parameter(torch.tensor(0.1))
        self.gain = nn.Parameter(torch.ones(()))

    def forward(self, signal):
        signal = self.gain * signal
        return Delayed.apply(signal, [self.early, self.late])


model = Filter()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(3):
    signal = torch.randn(16)
    loss = (model(signal) - signal.roll(1)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
