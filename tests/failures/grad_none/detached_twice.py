# code: BS213
# variable: w.grad
# cause: loss = (w.detach() * (w * w).detach() + v).sum()
# fix: loss = (w * (w * w) + v).sum()
import torch

w, v = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
loss = (w.detach() * (w * w).detach() + v).sum()
loss.backward()
w.grad.norm()
