# code: BS219
# variable: requires grad
# cause: torch.stack(rows, out=buffer)
# fix: Drop out=
# unsure: PyTorch does not say which tensor it refuses
import torch

rows = [torch.ones(2, requires_grad=True) * k for k in range(2)]
buffer = torch.empty(2, 2)
torch.stack(rows, out=buffer)
