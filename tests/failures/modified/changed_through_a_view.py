# code: BS202
# variable: y
# cause: first.zero_()
# fix: put y = y.clone() before first is taken from it
import torch

y = torch.randn(3, 3, requires_grad=True).sigmoid()
first = y[0]
first.zero_()
y.sum().backward()
