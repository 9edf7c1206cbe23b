import torch

TARGET = torch.tensor([[1, 0, 0], [0, 1, 1], [1, 1, 0], [0, 0, 1]])


class SigmoidFocal(torch.autograd.Function):
    """-(alpha_t) (1 - p_t)^gamma log p_t, elementwise"""

    @staticmethod
    def forward(ctx, x, t, alpha, gamma):
        p = torch.sigmoid(x)
        pt = torch.where(t == 1, p, 1 - p)
        at = torch.where(t == 1, torch.full_like(p, alpha), torch.full_like(p, 1 - alpha))
        ctx.save_for_backward(pt, at, t)
        ctx.gamma = gamma
        return -at * (1 - pt) ** gamma * pt.log()

    @staticmethod
    def backward(ctx, g):
        pt, at, t = ctx.saved_tensors
        sign = 2.0 * t.to(pt.dtype) - 1.0
        # d(-log pt)/dx = -sign * (1 - pt)
        gx = -sign * at * (1 - pt) ** ctx.gamma * (1 - pt)
        return g * gx, None, None, None


def f(x, w, b):
    logits = x @ w + b
    loss = SigmoidFocal.apply(logits, TARGET, 0.25, 2.0)
    return loss.sum()


def inputs():
    g = torch.Generator().manual_seed(10)
    x = torch.randn(4, 5, generator=g, requires_grad=True)
    w = torch.randn(5, 3, generator=g, requires_grad=True)
    b = torch.randn(3, generator=g, requires_grad=True)
    return x, w, b
