# code: BS233
# variable: f
# cause: value = float(e)
# fix: value = e
import torch


def f(x):
    e = x.sum()
    value = float(e)
    return value


torch.func.jacrev(f)(torch.ones(3))
