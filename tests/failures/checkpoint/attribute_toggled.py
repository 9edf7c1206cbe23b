# code: BS210
# variable: block
# cause: if self.use_gate:
# fix: use_gate
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Gated(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.a, self.b = nn.Linear(width, width), nn.Linear(width, width)
        self.use_gate = True

    def forward(self, x):
        h = self.a(x)
        if self.use_gate:
            h = h * torch.sigmoid(self.b(x))
        return h


block = Gated(4)
out = checkpoint(block, torch.randn(2, 4, requires_grad=True), use_reentrant=False)
block.use_gate = False
out.sum().backward()
