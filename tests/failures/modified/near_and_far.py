# code: BS202
# variable: far
# cause: far[1] = 1
# fix: Modify a copy: put far =
import torch

x = torch.randn(3, requires_grad=True)
near, far = x * 2, x * 3
out = (near**2).sum() + (far**2).sum()
near[0] = 0
far[1] = 1
out.backward()
