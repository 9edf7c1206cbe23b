# code: BS220
# variable: counts
# cause: counts = torch.tensor([3, 1, 4], requires_grad=True)
# fix: torch.tensor([3, 1, 4], dtype=torch.float32, requires_grad=True)
import torch

counts = torch.tensor([3, 1, 4], requires_grad=True)
loss = (counts * torch.rand(3)).sum()
loss.backward()
