# code: BS202
# variable: y
# cause: y += 1
# fix: Write y = y + 1
import torch

y = torch.randn(3, requires_grad=True).sigmoid()
y.data.mul_(2)
y += 1
y.sum().backward()
