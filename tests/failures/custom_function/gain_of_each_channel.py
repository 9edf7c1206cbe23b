# code: BS208
# variable: gain
# cause: return grad * gain[None, :, None], grad * x
# fix: (grad * x).sum((0, 2))
import torch
from torch import nn


class Gain(torch.autograd.Function):
    """A gain for each channel of an audio batch."""

    @staticmethod
    def forward(ctx, x, gain):
        ctx.save_for_backward(x, gain)
        return x * gain[None, :, None]

    @staticmethod
    def backward(ctx, grad):
        x, gain = ctx.saved_tensors
        return grad * gain[None, :, None], grad * x


class Layer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(c))

    def forward(self, x):
        return Gain.apply(x, self.gain)


torch.manual_seed(0)
net = nn.Sequential(nn.Conv1d(2, 8, 3, padding=1), Layer(8), nn.Tanh(), nn.Conv1d(8, 8, 3, padding=1), Layer(8))
opt = torch.optim.Adam(net.parameters())
for k in range(20):
    x = torch.randn(8, 2, 30)
    loss = (net(x).mean(1) - x.sum(1)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item(), net[1].gain)
