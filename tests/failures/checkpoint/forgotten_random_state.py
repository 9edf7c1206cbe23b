# code: BS210
# variable: stack.1
# cause: x = checkpoint(layer, x, use_reentrant=False, preserve_rng_state=False)
# fix: preserve_rng_state=True
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Sampled(nn.Module):
    """Keeps the features that a coin picks, so that the two runs save tensors of different shapes."""

    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x):
        x = self.linear(x)
        if self.training:
            kept = torch.rand(x.shape[0]) < 0.5
            x = torch.where(kept[:, None], x, x.detach())
            x = x.index_add(0, kept.nonzero()[:, 0], self.linear(x[kept]).tanh())
        return x


torch.manual_seed(0)
stack = nn.ModuleList(Sampled(4) for _ in range(2))
x = torch.randn(64, 4, requires_grad=True)
for layer in stack:
    x = checkpoint(layer, x, use_reentrant=False, preserve_rng_state=False)
x.square().mean().backward()
