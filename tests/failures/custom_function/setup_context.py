# code: BS207
# variable: Scale
# cause: return g * ctx.k
# fix: Return None for each argument that
import torch


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(x, k):
        return x * k

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.k = inputs[1]

    @staticmethod
    def backward(ctx, g):
        return g * ctx.k


Scale.apply(torch.randn(3, requires_grad=True), 2.0).sum().backward()
