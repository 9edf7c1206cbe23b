# code: BS202
# variable: res.body.0
# cause: return self.body(x) + gate
# fix: Create that ReLU without inplace=True
import torch
from torch import nn


class Res(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.ReLU(inplace=True), nn.Linear(4, 4))

    def forward(self, x):
        gate = x**2
        return self.body(x) + gate


stem, res = nn.Linear(4, 4), Res()
loss = res(stem(torch.randn(3, 4))).sum()
loss.backward()
