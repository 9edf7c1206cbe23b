# code: BS212
# variable: second
# cause: first, second = x.sum(), x * 2
# fix: as that of second.sum() does
import torch

x = torch.rand(5, requires_grad=True)
first, second = x.sum(), x * 2
torch.autograd.backward([first, second])
