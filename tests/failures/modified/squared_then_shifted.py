# code: BS202
# variable: h
# cause: h += 1
# fix: Write h = h + 1
import torch

h = torch.randn(3, requires_grad=True) * 2
loss = (h**2).sum()
h += 1
loss.backward()
