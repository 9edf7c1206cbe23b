# code: BS225
# variable: layer
# cause: return grad_input * 2
# fix: pass
import torch
from torch import nn

layer = nn.Linear(3, 2)
x = torch.ones(4, 3, requires_grad=True)
h = layer(x)


def twice(module, grad_input, grad_output):
    return grad_input * 2


layer.register_full_backward_hook(twice)
layer(x).sum().backward()
