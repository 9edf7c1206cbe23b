# code: BS208
# variable: net.head.weight and net.head.bias
# cause: w.data = torch.cat([w.data, torch.randn(extra, 8) * 0.05])
# fix: opt.add_param_group({"params": [net.head.weight, net.head.bias]})
"""Class-incremental learning: the head grows by two classes with every task."""

import torch
import torch.nn.functional as F
from torch import nn


class Growing(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(6, 8)
        self.head = nn.Linear(8, 2)

    def forward(self, x):
        return self.head(F.gelu(self.body(x)))

    @torch.no_grad()
    def grow(self, extra):
        w, b = self.head.weight, self.head.bias
        w.data = torch.cat([w.data, torch.randn(extra, 8) * 0.05])
        b.data = torch.cat([b.data, torch.zeros(extra)])
        w.grad = b.grad = None
        self.head.out_features += extra


torch.manual_seed(0)
centres = torch.randn(6, 6) * 2
net = Growing()
opt = torch.optim.AdamW(net.parameters(), lr=3e-3)
for task in range(3):
    if task:
        net.grow(2)
    for _ in range(3):
        y = torch.randint(2 * task, 2 * task + 2, (16,))
        loss = F.cross_entropy(net(centres[y] + torch.randn(16, 6)), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
