# code: BS201
# variable: vars(self)["value"]
# cause: vars(self)["value"] = 0.9 * vars(self)["value"] + 0.1 * h.mean(0)
# fix: vars(self)["value"].detach()
"""What a hook puts into a dictionary is new in each pass, whoever made that empty before the loop."""

import torch
from torch import nn
net = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1))
feats = {}
def keep(module, given, out):
    feats["hidden"] = out
net[1].register_forward_hook(keep)
class Average:
    def __init__(self):
        vars(self)["value"] = torch.zeros(6)
    def __call__(self, h):
        vars(self)["value"] = 0.9 * vars(self)["value"] + 0.1 * h.mean(0)
        return vars(self)["value"]
average = Average()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    x = torch.randn(5, 4)
    loss = net(x).square().mean() + (feats["hidden"] - average(feats["hidden"])).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
