# code: BS205
# variable: a
# cause: a -= a.grad
# fix: with torch.no_grad(): a -= a.grad
import torch

a, b, c = (torch.ones(2, requires_grad=True) for _ in range(3))
(a * b * c).sum().backward()
a -= a.grad
b -= b.grad
with torch.no_grad():
    c -= c.grad
