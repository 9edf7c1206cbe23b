# code: BS202
# variable: h
# cause: h[..., 0].sub_(h[..., 0].mean())
# fix: clone
import torch
from torch import nn


class Centred(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x):
        h = self.inner(x).exp()
        h[..., 0].sub_(h[..., 0].mean())
        return h


net = nn.Sequential(Centred(), nn.Linear(4, 1))
loss = net(torch.randn(6, 4)).square().mean()
loss.backward()
