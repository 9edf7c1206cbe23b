import torch

MASK = (torch.arange(24).reshape(2, 12) * 7 % 5 < 2)


class SoftDice(torch.autograd.Function):
    """1 - (2 sum(p t) + smooth) / (sum p + sum t + smooth), per sample"""

    @staticmethod
    def forward(ctx, p, t, smooth):
        inter = (p * t).sum(1, keepdim=True)
        den = p.sum(1, keepdim=True) + t.sum(1, keepdim=True) + smooth
        ctx.save_for_backward(t, inter, den)
        return (1 - (2 * inter + smooth) / den).squeeze(1)

    @staticmethod
    def backward(ctx, g):
        t, inter, den = ctx.saved_tensors
        gp = -2 * (t * den - inter) / den**2
        return g[:, None] * gp, None, None


def f(logits, bias):
    p = torch.sigmoid(logits + bias)
    loss = SoftDice.apply(p, MASK.to(p.dtype), 1.0)
    return loss.mean()


def inputs():
    g = torch.Generator().manual_seed(24)
    logits = torch.randn(2, 12, generator=g, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(12, generator=g, dtype=torch.float64, requires_grad=True)
    return logits, bias
