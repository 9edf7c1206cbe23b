# code: BS208
# variable: signal
# cause: return (grad_output / (channels * length)).expand(rows, length, channels)
# fix: .expand(rows, channels, length)
import torch
from torch import nn


class Level(torch.autograd.Function):
    @staticmethod
    def forward(ctx, signal):
        ctx.save_for_backward(signal)
        return signal.mean(dim=(1, 2), keepdim=True)

    @staticmethod
    def backward(ctx, grad_output):
        (signal,) = ctx.saved_tensors
        rows = signal.size(0)
        channels = signal.shape[1]
        length = signal.shape[-1]
        return (grad_output / (channels * length)).expand(rows, length, channels)


torch.manual_seed(0)
conv = nn.Conv1d(1, 4, 3, padding=1)
loss = Level.apply(conv(torch.randn(2, 1, 10))).square().mean()
loss.backward()
