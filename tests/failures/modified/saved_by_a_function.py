# code: BS202
# variable: w
# cause: w.zero_()
# fix: Modify a copy: put w =
import torch


class Mul(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x * w

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g * w, g * x


def main():
    x = torch.randn(3, requires_grad=True)
    w = x.exp() + 1
    y = Mul.apply(x, w)
    w.zero_()
    y.sum().backward()


main()
