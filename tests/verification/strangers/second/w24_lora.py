import torch


class LoRALinear(torch.autograd.Function):
    """y = x W^T + s (x A^T) B^T ; W frozen."""

    @staticmethod
    def forward(ctx, x, W, A, B, s):
        xa = x @ A.t()
        ctx.save_for_backward(x, W, A, B, xa)
        ctx.s = s
        return x @ W.t() + s * (xa @ B.t())

    @staticmethod
    def backward(ctx, g):
        x, W, A, B, xa = ctx.saved_tensors
        s = ctx.s
        g2, x2, xa2 = g.flatten(0, -2), x.flatten(0, -2), xa.flatten(0, -2)
        gB = g @ B
        dx = g @ W + s * (gB @ A)
        dA = gB.flatten(0, -2).t() @ x2
        dB = s * (g2.t() @ xa2)
        return dx, None, dA, dB, None


def f(x, W, A, B):
    y = LoRALinear.apply(torch.tanh(x), W, A, B, 16 / 4)
    return torch.nn.functional.relu(y).pow(2).mean()


def inputs():
    g = torch.Generator().manual_seed(24)
    r = lambda *s: torch.randn(*s, generator=g)
    return (r(2, 3, 6).requires_grad_(), r(5, 6) / 2, (r(4, 6) / 3).requires_grad_(), (r(5, 4) / 3).requires_grad_())
