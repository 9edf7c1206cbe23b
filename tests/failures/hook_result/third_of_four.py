# code: BS225
# variable: h
# cause: h.register_hook(lambda grad: grad.sum(0))
# fix: keep grad.norm()
import torch
from torch import nn

layer = nn.Linear(3, 2)
x = torch.ones(4, 3, requires_grad=True)
h = layer(x)

h.register_hook(lambda grad: -2 * grad)
h.register_hook(lambda grad: grad.clamp(-1, 1))
h.register_hook(lambda grad: grad.sum(0))
h.register_hook(lambda grad: None)
h.sum().backward()
