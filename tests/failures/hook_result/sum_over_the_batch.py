# code: BS225
# variable: h
# cause: h.register_hook(lambda grad: grad.sum(0))
# fix: keep grad.norm()
# or: h.register_hook(lambda grad: -2 * grad)\nh.register_hook(lambda grad: grad.sum(0))\nh.register_hook(lambda grad: None)
# or: h.register_hook(lambda grad: grad[0].expand_as(grad))\nh.register_hook(torch.mean)
# or: h.register_hook(lambda grad: grad[0])\nh = h.sum()
# or: getattr(h, "register_hook")(torch.mean)
import torch
from torch import nn

layer = nn.Linear(3, 2)
x = torch.ones(4, 3, requires_grad=True)
h = layer(x)
h.register_hook(lambda grad: grad.sum(0))
h.sum().backward()
