# code: BS225
# variable: p
# cause: "bias": lambda g: g.double() * 2,
# fix: (g.double() * 2).to(g)
import torch
from torch import nn

SCALES = {
    "weight": lambda g: g * 0.5,
    "bias": lambda g: g.double() * 2,
}

net = nn.Linear(4, 2)
for name, p in net.named_parameters():
    p.register_hook(SCALES[name])
net(torch.randn(3, 4)).sum().backward()
