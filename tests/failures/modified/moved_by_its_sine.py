# code: BS202
# variable: h
# cause: total = total + torch.sin(h.add_(1)).sum()
# fix: Modify a copy: put h =
import torch

h, total = torch.ones(3, requires_grad=True) * 2, 0
for _ in range(2):
    total = total + torch.sin(h.add_(1)).sum()
total.backward()
