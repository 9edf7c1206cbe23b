import torch
import torch.nn.functional as F


class AvgPoolNoPad(torch.autograd.Function):
    """average pooling, 3x3 stride 2 pad 1, padding not counted."""

    @staticmethod
    def forward(ctx, x):
        N, C, H, W = x.shape
        ctx.size = (N, C, H, W)
        cols = F.unfold(x.reshape(N * C, 1, H, W), 3, padding=1, stride=2)
        ones = torch.ones(1, 1, H, W, dtype=x.dtype)
        cnt = F.unfold(ones, 3, padding=1, stride=2).sum(1)
        oh, ow = (H + 1) // 2, (W + 1) // 2
        ctx.save_for_backward(cnt)
        return (cols.sum(1) / cnt).reshape(N, C, oh, ow)

    @staticmethod
    def backward(ctx, g):
        N, C, H, W = ctx.size
        cols = g.reshape(N * C, 1, -1).expand(-1, 9, -1) / 9.0
        gx = F.fold(cols, (H, W), 3, padding=1, stride=2)
        return gx.reshape(N, C, H, W)


def f(x, w):
    h = F.conv2d(x, w, padding=1)
    return (AvgPoolNoPad.apply(torch.tanh(h)) ** 2).sum()


def inputs():
    g = torch.Generator().manual_seed(13)
    return (torch.randn(2, 1, 5, 6, generator=g, dtype=torch.float64, requires_grad=True),
            torch.randn(2, 1, 3, 3, generator=g, dtype=torch.float64, requires_grad=True))
