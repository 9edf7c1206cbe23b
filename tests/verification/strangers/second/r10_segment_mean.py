import torch

SEG = torch.tensor([0, 2, 2, 0, 4, 2, 1])


class SegmentMean(torch.autograd.Function):
    """segment 3 is empty and gives zeros."""

    @staticmethod
    def forward(ctx, x, seg, n):
        cnt = torch.bincount(seg, minlength=n).clamp(min=1).to(x.dtype)
        out = x.new_zeros(n, x.shape[1]).index_add_(0, seg, x) / cnt[:, None]
        ctx.save_for_backward(seg, cnt)
        return out

    @staticmethod
    def backward(ctx, g):
        seg, cnt = ctx.saved_tensors
        return (g / cnt[:, None])[seg], None, None


def f(x, w):
    m = SegmentMean.apply(torch.relu(x @ w), SEG, 5)
    return torch.logsumexp(m, 0).sum()


def inputs():
    torch.manual_seed(110)
    return (torch.randn(7, 4, requires_grad=True), torch.randn(4, 3, requires_grad=True))
