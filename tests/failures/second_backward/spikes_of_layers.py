# code: BS201
# variable: v of net.0
# cause: self.v = 0.8 * self.v + self.i
# fix: for each in net: each.v
import torch
from torch import nn

torch.manual_seed(0)


class Fire(torch.autograd.Function):
    @staticmethod
    def forward(ctx, v):
        ctx.save_for_backward(v)
        return (v > 0).float()

    @staticmethod
    def backward(ctx, g):
        (v,) = ctx.saved_tensors
        return g / (1 + v.abs()) ** 2


class LIF(nn.Module):
    def __init__(self, n, m):
        super().__init__()
        self.w, self.v, self.i = nn.Linear(n, m), None, None

    def forward(self, x):
        if self.v is None:
            self.v = torch.zeros(m := self.w.out_features)
            self.i = torch.zeros(m)
        self.i = 0.5 * self.i + self.w(x)
        self.v = 0.8 * self.v + self.i
        return Fire.apply(self.v - 1)


net = nn.Sequential(LIF(3, 6), LIF(6, 6), LIF(6, 2))


def train():
    opt = torch.optim.Adam(net.parameters())
    for it in range(4):
        out = sum(net(torch.rand(3)) for _ in range(4))
        loss = (out - 1).square().sum()
        opt.zero_grad()
        loss.backward()
        opt.step()


train()
