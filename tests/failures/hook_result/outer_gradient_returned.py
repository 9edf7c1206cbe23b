# code: BS225
# variable: hook
# cause: return grad_output
# fix: pass
import torch
from torch import nn

layer = nn.Linear(3, 2)
x = torch.ones(4, 3, requires_grad=True)
h = layer(x)


def hook(module, grad_input, grad_output):
    return grad_output


layer.register_full_backward_hook(hook)
layer(x).sum().backward()
