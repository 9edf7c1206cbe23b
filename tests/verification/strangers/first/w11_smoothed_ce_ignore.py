import torch

LABELS = torch.tensor([2, -100, 0, 3, -100, 1])


class SmoothedCE(torch.autograd.Function):
    """Label smoothing cross entropy, mean over the tokens that are not ignored (-100)."""

    @staticmethod
    def forward(ctx, logits, labels, eps):
        keep = labels != -100
        safe = labels.clamp(min=0)
        logp = torch.log_softmax(logits, -1)
        nll = -logp.gather(1, safe[:, None]).squeeze(1)
        smooth = -logp.mean(-1)
        loss = ((1 - eps) * nll + eps * smooth) * keep
        ctx.save_for_backward(logp, safe)
        ctx.eps, ctx.n = eps, int(keep.sum())
        return loss.sum() / ctx.n

    @staticmethod
    def backward(ctx, g):
        logp, safe = ctx.saved_tensors
        C = logp.shape[-1]
        grad = logp.exp()
        q = torch.full_like(grad, ctx.eps / C)
        q.scatter_add_(1, safe[:, None], torch.full_like(grad[:, :1], 1 - ctx.eps))
        return g * (grad - q) / ctx.n, None, None


def f(h, W):
    logits = h @ W.t()
    ce = SmoothedCE.apply(logits, LABELS, 0.1)
    return ce + 0.01 * W.pow(2).sum()


def inputs():
    g = torch.Generator().manual_seed(11)
    h = torch.randn(6, 5, generator=g, requires_grad=True)
    W = torch.randn(4, 5, generator=g, requires_grad=True)
    return h, W
