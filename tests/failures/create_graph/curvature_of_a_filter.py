# code: BS204
# variable: slopes
# cause: products = torch.autograd.grad(slopes, weights, direction)
# fix: materialize_grads=True
"""The product of the Hessian and a vector, for a filter that turns out to be linear."""

import torch
from torch import nn

net = nn.Sequential(nn.Conv2d(1, 2, 3, bias=False), nn.Flatten())
weights = [p for p in net.parameters() if p.dim() > 1]
x = torch.randn(4, 1, 6, 6, requires_grad=True)
slopes = torch.autograd.grad(net(x).sum(), weights, create_graph=True)
direction = [torch.randn_like(w) for w in weights]
products = torch.autograd.grad(slopes, weights, direction)
print([p.norm() for p in products])
