# code: BS226
# variable: x.sum
# cause: if x.sum() > 0:
# fix: torch.where(x.sum() > 0
import torch


def f(x):
    if x.sum() > 0:
        print(x)
        x = x * 2
    return x


torch.vmap(f)(torch.ones(4, 3))
