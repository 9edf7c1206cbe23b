import torch

TARGET = torch.tensor([2, 0, -100, 4, 1, -100, 3])


class SmoothCE(torch.autograd.Function):
    """cross entropy with label smoothing and ignore_index, mean over the valid rows."""

    @staticmethod
    def forward(ctx, logits, target, smoothing, ignore_index):
        valid = target != ignore_index
        t = target.clamp(min=0)
        lp = torch.log_softmax(logits, -1)
        nll = -lp.gather(-1, t[:, None]).squeeze(-1)
        smooth = -lp.mean(-1)
        loss = (1 - smoothing) * nll + smoothing * smooth
        loss = torch.where(valid, loss, torch.zeros_like(loss))
        ctx.save_for_backward(lp, t, valid)
        ctx.smoothing = smoothing
        return loss.sum() / valid.sum()

    @staticmethod
    def backward(ctx, g):
        lp, t, valid = ctx.saved_tensors
        n, c = lp.shape
        q = torch.full_like(lp, ctx.smoothing / c)
        q.scatter_add_(1, t[:, None], torch.full_like(lp[:, :1], 1 - ctx.smoothing))
        d = (lp.exp() - q) * valid[:, None]
        return g * d / n, None, None, None


def f(x, w, b):
    logits = torch.nn.functional.linear(x, w, b)
    return SmoothCE.apply(logits, TARGET, 0.1, -100)


def inputs():
    torch.manual_seed(4)
    return (torch.randn(7, 6), torch.randn(5, 6, requires_grad=True), torch.zeros(5, requires_grad=True))
