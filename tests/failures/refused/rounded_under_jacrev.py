# code: BS200
# variable: Round.apply(x, scale)
# cause: def forward(ctx, value, step):
# fix: def setup_context(ctx, inputs, output):`, and move lines 14 and 15 into it, below `value, step = inputs`
import torch


class Round(torch.autograd.Function):
    """rounds to a grid; the gradient passes where nothing saturates"""

    @staticmethod
    def forward(ctx, value, step):
        rounded = (value / step).round() * step
        ctx.save_for_backward(rounded)
        ctx.step = step
        return rounded

    @staticmethod
    def backward(ctx, slope):
        (rounded,) = ctx.saved_tensors
        return slope * (rounded.abs() < 8 * ctx.step), None


def coded(x, scale=0.25):
    return torch.sin(Round.apply(x, scale))


print(torch.func.jacrev(coded)(torch.randn(3)))
