# code: BS203
# variable: net
# cause: param.requires_grad = False
# fix: ("bias" in n)
import torch
from torch import nn


def build():
    net = nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.Linear(16, 16), nn.GELU(), nn.Linear(16, 3))
    for param in net.parameters():
        param.requires_grad = False
    return net


def bitfit(model):
    for name, p in model.named_parameters():
        if "bias" not in name:
            p.requires_grad_(False)
    return [p for name, p in model.named_parameters() if "bias" in name]


torch.manual_seed(0)
net = build()
sgd = torch.optim.SGD(bitfit(net), lr=0.1)
for _ in range(3):
    loss = nn.functional.cross_entropy(net(torch.randn(10, 6)), torch.randint(0, 3, (10,)))
    sgd.zero_grad()
    loss.backward()
    sgd.step()
