# code: BS207
# variable: Blend
# cause: return grad * ctx.alpha
# fix: None
import torch


class Blend(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y, alpha):
        ctx.alpha = alpha
        return alpha * x + (1 - alpha) * y

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.alpha


x, y = torch.randn(3, requires_grad=True), torch.randn(3)
Blend.apply(x, y, 0.7).sum().backward()
