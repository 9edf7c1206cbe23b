# code: BS214
# variable: sine | cosine
# cause: with torch.inference_mode():
# fix: sine = sine.clone(); cosine = cosine.clone()
import torch
from torch import nn

torch.manual_seed(0)
turn = nn.Linear(3, 3)
hours = torch.arange(24.0)
with torch.inference_mode():
    sine = (hours * 0.26).sin()[:, None]
    cosine = (hours * 0.26).cos()[:, None]

x = turn(torch.randn(24, 3))
clock = x * sine + x.flip(1) * cosine
clock.square().sum().backward()
