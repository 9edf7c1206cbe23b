# code: BS226
# variable: out
# cause: out = torch.zeros(3)
# fix: out = x.new_zeros(3)
# or: out = torch.full((3,), 2.0)
# or: out = torch.empty(3, dtype=torch.float64)
# or: out = torch.zeros_like(torch.ones(3))
# or: out = torch.eye(3)[0].clone()
# or: out = torch.linspace(0, 1, 3)
import torch


def f(x):
    out = torch.zeros(3)
    out[1] = x[0]
    return out


torch.vmap(f)(torch.ones(4, 3))
