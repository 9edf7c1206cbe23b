import torch
import torch.nn.functional as F
from torch.autograd import Function


EDGES = torch.tensor([[0, 0, 1, 2, 3, 1], [1, 2, 2, 3, 4, 4]])


class PairEnergy(Function):
    """Yukawa energy of each bond: exp(-r) / r, r = |x_i - x_j|"""

    @staticmethod
    def forward(ctx, pos, i, j):
        d = pos[i] - pos[j]
        r = d.norm(dim=1)
        ctx.save_for_backward(d, r, i, j)
        ctx.n = pos.shape[0]
        return torch.exp(-r) / r

    @staticmethod
    def backward(ctx, g):
        d, r, i, j = ctx.saved_tensors
        dEdr = -torch.exp(-r) * (1 / r + 1 / r ** 2)
        force = (g * dEdr / r)[:, None] * d
        gpos = force.new_zeros(ctx.n, 3)
        gpos.index_add_(0, i, force)
        return gpos, None, None


def f(pos, q):
    i, j = EDGES.to(pos.device)
    e = PairEnergy.apply(pos, i, j)
    return (q[i] * q[j] * e).sum()


def inputs():
    torch.manual_seed(24)
    pos = (1.5 * torch.randn(5, 3, dtype=torch.float64)).requires_grad_()
    q = torch.randn(5, dtype=torch.float64, requires_grad=True)
    return pos, q
