# code: BS210
# variable: module
# cause: cache["scale"] = torch.sigmoid(self.scale(x).mean())
# fix: remove line 18
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

cache = {}


class Scaled(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.scale, self.linear = nn.Linear(width, 1), nn.Linear(width, width)

    def forward(self, x):
        if "scale" not in cache:
            cache["scale"] = torch.sigmoid(self.scale(x).mean())
        return self.linear(x) * cache["scale"]


module = Scaled(4)
out = checkpoint(module, torch.randn(2, 4, requires_grad=True), use_reentrant=False)
out.sum().backward()
