# code: BS233
# variable: f
# cause: torch.func.grad(f)(torch.ones(3), 2)
# fix: Compute what f() returns with PyTorch operations
# unsure: either return may be the one
import torch


def f(x, k):
    if k:
        return len(x)
    return k


torch.func.grad(f)(torch.ones(3), 2)
