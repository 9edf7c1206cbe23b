import torch
import torch.nn.functional as F


class Conv1dSame(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, b):
        ctx.save_for_backward(x, w)
        return F.conv1d(x, w, b, padding=w.shape[-1] // 2)

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        k = w.shape[-1]
        pad = k // 2
        gx = F.conv1d(g, w.transpose(0, 1), padding=pad)
        gw = F.conv1d(x.transpose(0, 1), g.transpose(0, 1), padding=pad).transpose(0, 1)
        gb = g.sum((0, 2))
        return gx, gw, gb


def f(x, w1, b1, w2, b2):
    h = torch.relu(Conv1dSame.apply(x, w1, b1))
    y = Conv1dSame.apply(h, w2, b2)
    return y.mean(-1).pow(2).sum() + y[..., 0].sum()


def inputs():
    torch.manual_seed(12)
    return (torch.randn(2, 3, 9), torch.randn(4, 3, 3, requires_grad=True), torch.randn(4, requires_grad=True),
            torch.randn(2, 4, 5, requires_grad=True), torch.randn(2, requires_grad=True))
