# code: BS202
# variable: inputs[0]
# cause: inputs[0].mul_(2)
# fix: return inputs[0].mul(2)
import torch
from torch import nn


def scale(module, inputs):
    inputs[0].mul_(2)


model = nn.Sequential(nn.Linear(4, 4), nn.Sigmoid(), nn.Linear(4, 1))
model[2].register_forward_pre_hook(scale)
model(torch.randn(8, 4)).mean().backward()
