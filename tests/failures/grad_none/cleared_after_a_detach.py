# code: BS213
# variable: w.grad
# cause: loss = (w.detach() * v).sum()
# fix: loss = (w * v).sum()
import torch

w, v = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
loss = (w.detach() * v).sum()
loss.backward()
w.grad.zero_()
