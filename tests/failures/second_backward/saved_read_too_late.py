# code: BS201
# variable: last.saved_tensors
# cause: (bits,) = last.saved_tensors
# fix: below line 15, put `ctx.kept = (signs.detach(),)`
import torch

last = None


class Sign(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        global last
        signs = (x > 0).float()
        ctx.save_for_backward(signs)
        last = ctx
        return signs

    @staticmethod
    def backward(ctx, g):
        (signs,) = ctx.saved_tensors
        return g * signs


x = torch.randn(5, requires_grad=True)
Sign.apply(x).sum().backward()
(bits,) = last.saved_tensors
print(bits.mean())
