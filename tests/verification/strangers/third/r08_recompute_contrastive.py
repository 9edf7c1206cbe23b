import torch
import torch.nn.functional as F
from torch.autograd import Function


class InfoNCE(Function):
    """memory-saving symmetric InfoNCE: recomputes in backward"""

    @staticmethod
    def _loss(a, b, log_t):
        s = a @ b.t() * log_t.exp()
        lab = torch.arange(a.shape[0], device=a.device)
        return 0.5 * (F.cross_entropy(s, lab) + F.cross_entropy(s.t(), lab))

    @staticmethod
    def forward(ctx, a, b, log_t):
        ctx.save_for_backward(a, b, log_t)
        return InfoNCE._loss(a, b, log_t)

    @staticmethod
    def backward(ctx, g):
        xs = [t.detach().requires_grad_(n) for t, n in zip(ctx.saved_tensors, ctx.needs_input_grad)]
        with torch.enable_grad():
            loss = InfoNCE._loss(*xs)
        need = [x for x in xs if x.requires_grad]
        it = iter(torch.autograd.grad(loss, need, g))
        return tuple(next(it) if x.requires_grad else None for x in xs)


def f(a, b, log_t):
    return 2.5 * InfoNCE.apply(F.normalize(a, dim=1), F.normalize(b, dim=1), log_t)


def inputs():
    torch.manual_seed(108)
    a = torch.randn(6, 4, dtype=torch.float64, requires_grad=True)
    b = torch.randn(6, 4, dtype=torch.float64, requires_grad=True)
    log_t = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    return a, b, log_t
