# code: BS225
# variable: h
# cause: h.register_hook(torch.mean)
# fix: keep grad.norm()
import torch
from torch import nn

layer = nn.Linear(3, 2)
x = torch.ones(4, 3, requires_grad=True)
h = layer(x)
h.register_hook(lambda grad: grad[0].expand_as(grad))
h.register_hook(torch.mean)
h.sum().backward()
