# code: BS225
# variable: hook
# cause: h.sum().backward()
# fix: keep grad.norm()
# unsure: no text shows where the hook is registered
import torch
from torch import nn

layer = nn.Linear(3, 2)
x = torch.ones(4, 3, requires_grad=True)
h = layer(x)
getattr(h, "register_hook")(torch.mean)
h.sum().backward()
