# code: BS215
# variable: Gate
# cause: @once_differentiable
# fix: put `gate = torch.sigmoid(x)`
import torch
from torch.autograd.function import once_differentiable


class Gate(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        gate = torch.sigmoid(x)
        ctx.save_for_backward(x, y, gate)
        return gate * y

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        x, y, gate = ctx.saved_tensors
        return g * y * gate * (1 - gate), g * gate


x, y = torch.randn(3, requires_grad=True), torch.randn(3, requires_grad=True)
(slope,) = torch.autograd.grad((Gate.apply(x, y) * x).sum(), x, create_graph=True)
slope.square().sum().backward()
