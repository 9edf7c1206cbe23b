# code: BS215
# variable: Decay
# cause: @once_differentiable
# fix: ctx.save_for_backward(rate, e, x)
import torch
from torch import nn
from torch.autograd.function import once_differentiable


class Decay(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, rate, power):
        r = x.square().sum(-1, keepdim=True)
        scaled, ctx.power = r * rate, power
        e, d = torch.exp(-scaled), 2 * x
        ctx.save_for_backward(rate, r, e, d)
        return e

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        rate, r, e, d = ctx.saved_tensors
        return -grad * e * rate * d, (-grad * e * r).sum(), None


class Field(nn.Module):
    def __init__(self):
        super().__init__()
        self.rate, self.head = nn.Parameter(torch.tensor(0.5)), nn.Linear(1, 1)

    def forward(self, x):
        return self.head(Decay.apply(x, self.rate, 2))


torch.manual_seed(0)
field = Field()
optimizer = torch.optim.Adam(field.parameters(), lr=0.01)
for _ in range(2):
    x = torch.randn(5, 2, requires_grad=True)
    (force,) = torch.autograd.grad(field(x).sum(), x, create_graph=True)
    optimizer.zero_grad()
    (force - x.detach()).square().mean().backward()
    optimizer.step()
