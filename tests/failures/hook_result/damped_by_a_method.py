# code: BS225
# variable: shared
# cause: return share * gradient, share
# fix: write `return share * gradient`
from functools import partial

import torch
from torch import nn


class TwoHeads(nn.Module):
    """Each head gets its own share of the trunk."""

    def __init__(self):
        super().__init__()
        self.trunk = nn.Linear(4, 6)
        self.heads = nn.ModuleList([nn.Linear(6, 1), nn.Linear(6, 1)])
        self.of_first = partial(self.damped, share=torch.tensor(0.3))

    def damped(self, gradient, share):
        if not gradient.any():
            return None
        return share * gradient, share

    def forward(self, x):
        shared = self.trunk(x).relu()
        shared.register_hook(self.of_first)
        return [head(shared) for head in self.heads]


first, second = TwoHeads()(torch.randn(3, 4))
(first.mean() + second.square().mean()).backward()
