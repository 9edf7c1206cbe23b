import torch

IDS = torch.tensor([[3, 1, 0, 3], [1, 5, 3, 2]])


class ScaledEmbedding(torch.autograd.Function):
    @staticmethod
    def forward(ctx, weight, ids, scale):
        ctx.save_for_backward(ids)
        ctx.shape = weight.shape
        ctx.scale = scale
        return weight[ids] * scale

    @staticmethod
    def backward(ctx, g):
        ids, = ctx.saved_tensors
        dw = g.new_zeros(ctx.shape)
        dw[ids.reshape(-1)] += g.reshape(-1, ctx.shape[1]) * ctx.scale
        return dw, None, None


def f(weight, pos, head):
    e = ScaledEmbedding.apply(weight, IDS, weight.shape[1] ** 0.5)
    h = torch.tanh(e + pos)
    return torch.logsumexp(h @ head, -1).sum()


def inputs():
    torch.manual_seed(10)
    return (torch.randn(7, 4, requires_grad=True), torch.randn(4, 4, requires_grad=True),
            torch.randn(4, 3, requires_grad=True))
