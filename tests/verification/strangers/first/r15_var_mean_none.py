import torch


class VarMean(torch.autograd.Function):
    """Unbiased variance and mean over dim 0; unused outputs arrive as None."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.set_materialize_grads(False)
        xw = x * w
        mu = xw.mean(0)
        c = xw - mu
        ctx.save_for_backward(x, w, c)
        return c.pow(2).sum(0) / (x.shape[0] - 1), mu

    @staticmethod
    def backward(ctx, gvar, gmu):
        x, w, c = ctx.saved_tensors
        n = x.shape[0]
        if gvar is None and gmu is None:
            return None, None
        gz = torch.zeros_like(c)
        if gvar is not None:
            gz = gz + 2 * c / (n - 1) * gvar
        if gmu is not None:
            gz = gz + gmu / n
        gx = gz * w if ctx.needs_input_grad[0] else None
        gw = (gz * x).sum(0) if ctx.needs_input_grad[1] else None
        return gx, gw


def f(x, w):
    var, _ = VarMean.apply(x, w)
    return (var + 1e-3).rsqrt().sum()


def inputs():
    g = torch.Generator().manual_seed(45)
    x = torch.randn(7, 3, generator=g, dtype=torch.float64)
    w = (1 + torch.rand(3, generator=g, dtype=torch.float64)).requires_grad_()
    return x, w
