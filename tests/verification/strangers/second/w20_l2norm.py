import torch


class L2Normalize(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, eps=1e-8):
        norm = x.norm(dim=-1, keepdim=True).clamp_min(eps)
        ctx.save_for_backward(x, norm)
        return x / norm

    @staticmethod
    def backward(ctx, g):
        x, norm = ctx.saved_tensors
        return (g - x * (x * g).sum(-1, keepdim=True)) / norm, None


def f(x, proto, temp):
    sim = L2Normalize.apply(x) @ L2Normalize.apply(proto).t()
    return -torch.log_softmax(sim / temp, -1).diagonal().mean()


def inputs():
    torch.manual_seed(20)
    return (torch.randn(4, 6, requires_grad=True), torch.randn(4, 6, requires_grad=True),
            torch.tensor(0.5, requires_grad=True))
