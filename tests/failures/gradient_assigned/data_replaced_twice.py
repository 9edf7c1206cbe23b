# code: BS208
# variable: w
# cause: w.data = torch.randn(3, 3)
# fix: w = torch.nn.Parameter(torch.randn(3, 3))
# unsure: which of the two statements changed the shape is not known
import torch

w = torch.nn.Parameter(torch.randn(3, 3))
before = (w * 1).grad_fn
w.data = torch.randn(3, 3)
w.data = torch.randn(4, 4)
(torch.randn(2, 4) @ w).sum().backward()
