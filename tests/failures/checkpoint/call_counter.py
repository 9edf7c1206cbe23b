# code: BS210
# variable: layer
# cause: self.calls += 1
# fix: put `layer.calls += 1` before line 26
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class WarmStart(nn.Module):
    """Skips its mixing during the first call."""

    def __init__(self, width):
        super().__init__()
        self.mix = nn.Linear(width, width)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        if self.calls > 1:
            x = torch.tanh(self.mix(x))
        return x * x


layer = WarmStart(5)
out = checkpoint(layer, torch.randn(2, 5, requires_grad=True), use_reentrant=False)
out.sum().backward()
