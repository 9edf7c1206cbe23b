# code: BS210
# variable: stage
# cause: width = next(self.widths)
# fix: move `next(self.widths)` out of the checkpointed function
import itertools

import torch
from torch import nn
from torch.utils import checkpoint as ckpt


class Slimmable(nn.Module):
    """Runs with fewer channels in every other step."""

    def __init__(self, most):
        super().__init__()
        self.up, self.down = nn.Linear(4, most), nn.Linear(most, 4)
        self.widths = itertools.cycle([most, most // 2])

    def forward(self, x):
        width = next(self.widths)
        hidden = nn.functional.silu(nn.functional.linear(x, self.up.weight[:width], self.up.bias[:width]))
        return nn.functional.linear(hidden, self.down.weight[:, :width], self.down.bias)


torch.manual_seed(0)
stage = Slimmable(8)
optimizer = torch.optim.Adam(stage.parameters(), lr=1e-3)
for _ in range(2):
    x = torch.randn(6, 4)
    error = (ckpt.checkpoint(stage, x, use_reentrant=False) - x).square().mean()
    optimizer.zero_grad()
    error.backward()
    optimizer.step()
