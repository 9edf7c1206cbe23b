import torch


class CheckpointMLP(torch.autograd.Function):
    """Keep only the inputs; backward runs the block again with grad on."""

    @staticmethod
    def block(x, w1, w2):
        return torch.nn.functional.silu(x @ w1) @ w2

    @staticmethod
    def forward(ctx, x, w1, w2):
        ctx.save_for_backward(x, w1, w2)
        return CheckpointMLP.block(x, w1, w2)

    @staticmethod
    def backward(ctx, g):
        with torch.enable_grad():
            args = [t.detach().requires_grad_() for t in ctx.saved_tensors]
            y = CheckpointMLP.block(*args)
        return torch.autograd.grad(y, args, g)


def f(x, w1, w2):
    h = x + CheckpointMLP.apply(x, w1, w2)
    h = h + CheckpointMLP.apply(h, w1, w2)
    return h.pow(2).mean()


def inputs():
    g = torch.Generator().manual_seed(40)
    x = torch.randn(4, 3, generator=g, requires_grad=True)
    w1 = (torch.randn(3, 6, generator=g) * 0.5).requires_grad_()
    w2 = (torch.randn(6, 3, generator=g) * 0.5).requires_grad_()
    return x, w1, w2
