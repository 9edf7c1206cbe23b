import torch


class DistillKL(torch.autograd.Function):
    """T^2 KL(teacher || student), mean over the batch; the gradient flows into both."""

    @staticmethod
    def forward(ctx, s, t, T):
        ls, lt = torch.log_softmax(s / T, -1), torch.log_softmax(t / T, -1)
        row = (lt.exp() * (lt - ls)).sum(-1)
        ctx.save_for_backward(ls, lt, row)
        ctx.T = T
        return T * T * row.mean()

    @staticmethod
    def backward(ctx, g):
        ls, lt, row = ctx.saved_tensors
        c = g * ctx.T / ls.shape[0]
        ds = c * (ls.exp() - lt.exp())
        dt = c * lt.exp() * (lt - ls - row[:, None])
        return ds, dt, None


def f(x, ws, wt):
    return 0.7 * DistillKL.apply(x @ ws, torch.tanh(x @ wt) * 3, 2.5)


def inputs():
    torch.manual_seed(115)
    return (torch.randn(6, 4, requires_grad=True), torch.randn(4, 5, requires_grad=True), torch.randn(4, 5, requires_grad=True))
