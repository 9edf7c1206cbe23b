# code: BS202
# variable: y
# cause: y.neg_()
# fix: Write y = y.neg()
import torch

x = torch.randn(3, requires_grad=True)
y = x.sigmoid()
z = y * y
y.neg_()
torch.autograd.grad(z.sum(), x)
