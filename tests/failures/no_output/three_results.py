# code: BS233
# variable: f
# cause: return x.sum(), x, 2 * x
# fix: Pass has_aux=True to torch.func.grad
import torch


def f(x):
    return x.sum(), x, 2 * x


g = torch.func.grad(f)
g(torch.ones(3))
