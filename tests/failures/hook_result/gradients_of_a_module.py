# code: BS225
# variable: layer
# cause: return (grad_input[0] * 2, None)
# fix: pass
# or: return grad_input[0] * 2
# or: return grad_input * 2
# or: return (grad_input[0], grad_output[0])
# or: return grad_output
import functools

import torch
from torch import nn

layer = nn.Linear(3, 2)
x = torch.ones(4, 3, requires_grad=True)
h = layer(x)


def given(module, grad_input, grad_output):
    return (grad_input[0] * 2, None)


layer.register_full_backward_hook(given)
layer(x).sum().backward()
