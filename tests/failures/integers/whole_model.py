# code: BS220
# variable: net.table
# cause: net.requires_grad_(True)
# fix: for p in net.parameters(): p.requires_grad_(p.is_floating_point())
import torch
from torch import nn


class Hashed(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.randint(0, 10, (5,)), requires_grad=False)
        self.vectors = nn.Embedding(10, 3)

    def forward(self, x):
        return self.vectors(self.table[x]).sum()


net = Hashed()
net.requires_grad_(False)
net.requires_grad_(True)
net(torch.tensor([0, 2])).backward()
