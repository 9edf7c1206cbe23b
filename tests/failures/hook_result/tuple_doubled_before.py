# code: BS225
# variable: layer
# cause: return grad_output * 2
# fix: or a tuple like grad_output
import torch
from torch import nn

layer = nn.Linear(3, 2)
x = torch.ones(4, 3, requires_grad=True)
h = layer(x)


def doubled(module, grad_output):
    return grad_output * 2


layer.register_full_backward_pre_hook(doubled)
layer(x).sum().backward()
