# code: BS225
# variable: hook
# cause: return flat * 2
# fix: return (flat * 2).view_as(grad)
import torch
from torch import nn

layer = nn.Linear(3, 2)
x = torch.ones(4, 3, requires_grad=True)
h = layer(x)


def hook(grad):
    flat = grad.reshape(-1)
    return flat * 2


h.register_hook(hook)
h.sum().backward()
