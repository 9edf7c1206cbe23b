# code: BS208
# variable: Op
# cause: grad_w = 2 * g.T @ x
# fix: grad_w = (2 * g.T @ x).T
import torch


class Op(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x)
        return x @ w

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        grad_w = 2 * g.T @ x
        return None, grad_w


Op.apply(torch.randn(4, 3), torch.randn(3, 5, requires_grad=True)).sum().backward()
