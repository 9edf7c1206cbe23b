# code: BS202
# variable: gate
# cause: gate *= 0.5
# fix: gate = gate * 0.5
import torch


class Squash(torch.autograd.Function):
    """x / (1 + |x|), whose slope follows from the result"""

    @staticmethod
    def forward(ctx, x):
        result = x / (1 + x.abs())
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx, slope):
        (result,) = ctx.saved_tensors
        return slope * (1 - result.abs()) ** 2


layer = torch.nn.Linear(4, 4)
gate = Squash.apply(layer(torch.randn(3, 4)))
gate *= 0.5
gate.sum().backward()
