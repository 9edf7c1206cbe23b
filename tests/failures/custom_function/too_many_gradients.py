# code: BS207
# variable: WeightedSum
# cause: return None, grad_a, grad_b, grad_weight
# fix: return grad_a, grad_b, grad_weight
import torch


class WeightedSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b, weight):
        ctx.save_for_backward(a, b, weight)
        return weight * a + (1 - weight) * b

    @staticmethod
    def backward(ctx, grad):
        a, b, weight = ctx.saved_tensors
        grad_a = weight * grad
        grad_b = (1 - weight) * grad
        grad_weight = (grad * (a - b)).sum()
        return None, grad_a, grad_b, grad_weight


mix = lambda a, b, weight: WeightedSum.apply(a, b, weight)
a, b, weight = (torch.randn(shape, requires_grad=True) for shape in (3, 3, ()))
mix(a, b, weight).sum().backward()
