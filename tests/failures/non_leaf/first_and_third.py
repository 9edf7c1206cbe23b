# code: BS206
# variable: a
# cause: a = torch.ones(3, requires_grad=True) * 2
# fix: Compute first and set requires_grad last
import torch

a = torch.ones(3, requires_grad=True) * 2
b = torch.ones(3, requires_grad=True)
c = torch.ones(3, requires_grad=True) / 2
torch.optim.Adam([a, b, c])
