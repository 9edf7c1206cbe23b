# code: BS226
# variable: vmap
# cause: torch.vmap(f)(torch.ones(4, 3))
# fix: torch.vmap(f
# or: many = torch.vmap(f, in_dims=0)\nmany(torch.ones(4, 3))
# or: torch.func.jacfwd(f)(torch.ones(3))
import torch


def f(x):
    return x * torch.rand(3)


torch.vmap(f)(torch.ones(4, 3))
