# code: BS215
# variable: Swish
# cause: @once_differentiable
# fix: once_differentiable
import torch
from torch import nn
from torch.autograd.function import once_differentiable


class Swish(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * torch.sigmoid(x)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        s = torch.sigmoid(x)
        return grad * (s + x * s * (1 - s))


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(3, 8), nn.Linear(8, 1)

    def forward(self, x):
        return self.b(Swish.apply(self.a(x)))


critic = Critic()
x = torch.randn(4, 3, requires_grad=True)
(gradient,) = torch.autograd.grad(critic(x).sum(), x, create_graph=True)
penalty = (gradient.norm(dim=1) - 1).square().mean()
penalty.backward()
