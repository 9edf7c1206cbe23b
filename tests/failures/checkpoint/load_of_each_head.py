# code: BS210
# variable: heads.1
# cause: self.load.add_(share - 0.5)
# fix: self.load_due = share - 0.5
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

width = 8


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.layers = nn.Linear(width, 2), nn.ModuleList(nn.Linear(width, width) for _ in range(2))
        self.register_buffer("load", torch.zeros(2))

    def forward(self, x):
        x = x.reshape(-1, width)
        choice = (self.gate(x) - 10 * self.load).argmax(-1)
        share = torch.bincount(choice, minlength=2) / len(choice)
        self.load.add_(share - 0.5)
        out = torch.zeros_like(x)
        for k, layer in enumerate(self.layers):
            rows = (choice == k).nonzero().flatten()
            out = out.index_add(0, rows, layer(x[rows]).tanh())
        return out


torch.manual_seed(0)
heads = nn.ModuleList(Head() for _ in range(2))
optimizer = torch.optim.SGD(heads.parameters(), lr=0.1)
for _ in range(3):
    x = torch.randn(9, width)
    for head in heads:
        x = checkpoint(head, x, use_reentrant=False)
    optimizer.zero_grad()
    x.square().mean().backward()
    optimizer.step()
