# code: BS209
# variable: row
# cause: row += 1
# fix: Compute new parts and join them with torch.stack([...])
import torch

x = torch.randn(4, 4, requires_grad=True) * 2
for row in x:
    row += 1
