# code: BS202
# variable: h
# cause: h[0].mul_(0.5).add_(1.0)
# fix: h = h.clone()
import torch

w = torch.ones(4, 3, requires_grad=True)
h = torch.tanh(w)
h[0].mul_(0.5).add_(1.0)
loss = h.sum()
loss.backward()
