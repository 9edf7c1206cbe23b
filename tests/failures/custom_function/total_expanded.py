# code: BS208
# variable: scale
# cause: return grad, slope.expand(4)
# fix: .sum(dim=(1, 2), keepdim=True)
import torch


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(x)
        return x * scale

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        slope = (grad * x).sum()
        return grad, slope.expand(4)


scale = torch.ones(4, 1, 1, requires_grad=True)
Scale.apply(torch.randn(4, 3, 3), scale).sum().backward()
