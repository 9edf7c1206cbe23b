# code: BS226
# variable: x.sum
# cause: return x * x.sum().item()
# fix: x.sum() instead of x.sum().item()
# or: return x * float(x[0] + x[1])
# or: return torch.eye(3)[int(x[0])]
# or: return sum(x for _ in range(int(x[0])))
import torch


def f(x):
    return x * x.sum().item()


torch.vmap(f)(torch.ones(4, 3))
