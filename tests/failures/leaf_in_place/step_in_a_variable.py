# code: BS205
# variable: w
# cause: w.sub_(step)
# fix: with torch.no_grad(): w.sub_(step)
import torch

w = torch.randn(3, requires_grad=True)
(w**2).sum().backward()
step = 0.1 * w.grad
w.sub_(step)
