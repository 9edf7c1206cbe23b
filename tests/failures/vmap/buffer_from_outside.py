# code: BS226
# variable: out
# cause: out[0] = x[0]
# fix: out + torch.zeros_like(x)
import torch

out = torch.zeros(3)


def f(x):
    out[0] = x[0]
    return out


torch.vmap(f)(torch.ones(4, 3))
