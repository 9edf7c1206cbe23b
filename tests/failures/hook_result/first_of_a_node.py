# code: BS225
# variable: h.grad_fn
# cause: h.grad_fn.register_hook(lambda inputs, outputs: inputs[0])
# fix: Return a tuple with a gradient
# or: h.grad_fn.register_hook(lambda inputs, outputs: inputs * 2)
# or: h.register_hook(lambda grad: (grad,))
import functools

import torch
from torch import nn

layer = nn.Linear(3, 2)
x = torch.ones(4, 3, requires_grad=True)
h = layer(x)
h.grad_fn.register_hook(lambda inputs, outputs: inputs[0])
h.sum().backward()
