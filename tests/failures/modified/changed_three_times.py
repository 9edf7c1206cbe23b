# code: BS202
# variable: y
# cause: y.mul_(2)
# fix: Modify a copy: put y =
import torch

y = torch.randn(3, requires_grad=True).sigmoid()
y.mul_(2)
y += 1
y[0] = 3
y.sum().backward()
