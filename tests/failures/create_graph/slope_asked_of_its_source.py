# code: BS203
# variable: slopes
# cause: slopes = torch.autograd.grad(cubes, x)[0]
# fix: On line 10, differentiate slopes with respect to x
import torch

x = torch.randn(4, requires_grad=True)
cubes = (x**3).sum()
slopes = torch.autograd.grad(cubes, x)[0]
bend = torch.autograd.grad(cubes, slopes)[0]
print(bend)
