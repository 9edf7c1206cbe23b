# code: BS226
# variable: out
# cause: out = torch.zeros(3)
# fix: out = x.new_zeros(3)
# varied: out[1] = x[0]
# or: out[:2] = x[:2]
# or: out.copy_(x)
# or: out += x
# or: out[1].add_(x[0])
import torch


def f(x):
    out = torch.zeros(3)
    out[1] = x[0]
    return out


torch.vmap(f)(torch.ones(4, 3))
