# code: BS206
# variable: w
# cause: w = w - w.mean()
# fix: w = w.detach().requires_grad_()
import torch

w = torch.zeros(3, requires_grad=True)
w = w - w.mean()
torch.optim.SGD([w], lr=0.1)
