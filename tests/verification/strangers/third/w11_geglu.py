import torch
import torch.nn.functional as F
from torch.autograd import Function


class GeGLU(Function):
    """out = a * gelu(b), exact gelu"""

    @staticmethod
    def forward(ctx, a, b):
        cdf = 0.5 * (1 + torch.erf(b * 0.7071067811865476))
        ctx.save_for_backward(a, b, cdf)
        return a * b * cdf

    @staticmethod
    def backward(ctx, g):
        a, b, cdf = ctx.saved_tensors
        pdf = torch.exp(-0.5 * b * b) * 0.3989422804014327
        d_gate = g * a * (cdf + b * pdf)
        d_val = g * b * cdf
        return d_gate, d_val


def f(x, w_in, w_out):
    a, b = (x @ w_in).chunk(2, dim=-1)
    return (GeGLU.apply(a, b) @ w_out).pow(2).sum()


def inputs():
    torch.manual_seed(11)
    x = torch.randn(5, 4, dtype=torch.float64, requires_grad=True)
    w_in = torch.randn(4, 6, dtype=torch.float64, requires_grad=True)
    w_out = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)
    return x, w_in, w_out
