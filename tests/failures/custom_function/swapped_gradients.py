# code: BS208
# variable: Bilinear
# cause: return grad @ y.T, x.T @ grad
# fix: order
import torch


class Bilinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, y, x):
        ctx.save_for_backward(x, y)
        return x @ y

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        return grad @ y.T, x.T @ grad


y = torch.randn(4, 5, requires_grad=True)
x = torch.randn(3, 4, requires_grad=True)
loss = Bilinear.apply(y, x).square().sum()
loss.backward()
