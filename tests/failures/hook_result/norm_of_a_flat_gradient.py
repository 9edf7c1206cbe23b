# code: BS225
# variable: hook
# cause: return flat.norm()
# fix: return flat.norm()
import torch
from torch import nn

layer = nn.Linear(3, 2)
x = torch.ones(4, 3, requires_grad=True)
h = layer(x)


def hook(grad):
    flat = grad.flatten()
    return flat.norm()


h.register_hook(hook)
h.sum().backward()
