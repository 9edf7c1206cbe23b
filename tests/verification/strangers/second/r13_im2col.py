import torch
import torch.nn.functional as F


class Im2colConv(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, b, stride, pad):
        N, C, H, W = x.shape
        O, _, kh, kw = w.shape
        cols = F.unfold(x, (kh, kw), padding=pad, stride=stride)
        oh, ow = (H + 2 * pad - kh) // stride + 1, (W + 2 * pad - kw) // stride + 1
        ctx.save_for_backward(cols, w)
        ctx.meta = (H, W, stride, pad)
        return (w.flatten(1) @ cols + b[:, None]).view(N, O, oh, ow)

    @staticmethod
    def backward(ctx, g):
        cols, w = ctx.saved_tensors
        H, W, stride, pad = ctx.meta
        g = g.flatten(2)
        dw = torch.einsum("nol,nkl->ok", g, cols).view_as(w)
        dx = F.fold(w.flatten(1).t() @ g, (H, W), w.shape[2:], padding=pad, stride=stride)
        return dx, dw, g.sum((0, 2)), None, None


def f(x, w1, b1, w2):
    h = torch.tanh(Im2colConv.apply(x, w1, b1, 2, 1))
    return F.conv2d(h, w2).pow(2).sum()


def inputs():
    torch.manual_seed(113)
    return (torch.randn(2, 2, 6, 7, requires_grad=True), torch.randn(3, 2, 3, 2, requires_grad=True),
            torch.randn(3, requires_grad=True), torch.randn(2, 3, 2, 2, requires_grad=True))
