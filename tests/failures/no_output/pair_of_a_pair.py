# code: BS233
# variable: f
# cause: return (x.sum(), x), x
# fix: Return a pair from f()
import torch


def f(x):
    return (x.sum(), x), x


torch.func.grad(f, has_aux=True)(torch.ones(3))
