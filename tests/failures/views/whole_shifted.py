# code: BS209
# variable: a
# cause: x += 1
# fix: x += 1
import torch


def f():
    x = torch.nn.Linear(4, 4)(torch.randn(2, 4))
    a, b = x.chunk(2, dim=1)
    x += 1
    return (a * b).sum()


f()
