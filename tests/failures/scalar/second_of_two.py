# code: BS212
# variable: second
# cause: first, second = x.sum(), x * 2
# fix: Put second = second.sum() before line 9
import torch

x = torch.rand(5, requires_grad=True)
first, second = x.sum(), x * 2
torch.autograd.backward([first, second])
