# code: BS206
# variable: w
# cause: w = torch.randn(3, requires_grad=True) * 0.1
# fix: Compute first and set requires_grad last
# or: w = torch.zeros(3, requires_grad=True).double()
# or: w = torch.zeros(3).requires_grad_().double()
# or: w = torch.nn.Parameter(torch.zeros(3)).double()
# or: w = -torch.rand(3, requires_grad=True)
import torch

w = torch.randn(3, requires_grad=True) * 0.1
optimizer = torch.optim.SGD([w], lr=0.1)
