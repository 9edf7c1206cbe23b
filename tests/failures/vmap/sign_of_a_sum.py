# code: BS226
# variable: x.sum() > 0
# cause: return x if x.sum() > 0 else -x
# fix: return torch.where(x.sum() > 0, x, -x)
# or: if x[0] > 1:\n    return x\nreturn x * 2
# or: if x[0] > 1:\n    return x\nelse:\n    return 2 * x
# or: if x[0] > 1: return x\nreturn x * 2
# or: while x.norm() > 1:\n    x = x / 2\nreturn x
# or: assert x.min() >= 0\nreturn x
# or: return max(x[0], x[1])
import torch
def f(x):
    return x if x.sum() > 0 else -x
torch.vmap(f)(torch.ones(4, 3) * 3)
