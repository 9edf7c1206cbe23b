# code: BS215
# variable: cdist
# cause: return torch.cdist(h, x).mean()
# fix: ((h.unsqueeze(-2) - x.unsqueeze(-3))
import torch
from torch import nn

torch.manual_seed(0)

from torch.func import functional_call


class Dist(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(3, 3)

    def forward(self, x):
        h = self.l(x)
        return torch.cdist(h, x).mean()


m = Dist()


def inner(ps, x):
    loss = functional_call(m, ps, (x,))
    gs = torch.autograd.grad(loss, list(ps.values()), create_graph=True)
    return {k: p - 0.1 * g for (k, p), g in zip(ps.items(), gs)}


opt = torch.optim.SGD(m.parameters(), lr=0.1)
for it in range(2):
    fast = inner(dict(m.named_parameters()), torch.randn(5, 3))
    outer = functional_call(m, fast, (torch.randn(5, 3),))
    opt.zero_grad()
    outer.backward()
    opt.step()
