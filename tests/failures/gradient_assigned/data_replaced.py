# code: BS208
# variable: w
# cause: w.data = torch.randn(4, 4)
# fix: w = nn.Parameter(torch.randn(4, 4))
import torch

w = torch.nn.Parameter(torch.randn(3, 3))
before = (w * 1).grad_fn
w.data = torch.randn(4, 4)
loss = (torch.randn(2, 4) @ w).sum()
loss.backward()
