# code: BS226
# variable: The size of a result
# cause: return x[x > 0].sum()
# fix: torch.where(mask
import torch


def f(x):
    return x[x > 0].sum()


torch.vmap(f)(torch.ones(4, 3))
