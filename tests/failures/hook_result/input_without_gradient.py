# code: BS225
# variable: layer
# cause: return grad_output
# fix: pass
import torch
from torch import nn

layer = nn.Linear(3, 2)
x = torch.ones(4, 3, requires_grad=True)
h = layer(x)


def given(module, grad_input, grad_output):
    return grad_output


layer.register_full_backward_hook(given)
layer(x.detach()).sum().backward()
