# code: BS226
# variable: net.norm
# cause: self.norm = nn.BatchNorm1d(6)
# fix: nn.GroupNorm(1, 6)
import torch
from torch import nn
from torch.func import functional_call, grad, vmap


class Scorer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(6)
        self.out = nn.Linear(6, 1)

    def forward(self, x):
        return self.out(torch.relu(self.norm(x)).mean(-1))


net = Scorer()
weights, stats = dict(net.named_parameters()), dict(net.named_buffers())


def loss_of(weights, stats, row, target):
    score = functional_call(net, (weights, stats), (row[None],))
    return (score[0, 0] - target) ** 2


per_row = vmap(grad(loss_of), in_dims=(None, None, 0, 0))
found = per_row(weights, stats, torch.randn(12, 6, 9), torch.randn(12))
print({name: each.norm() for name, each in found.items()})
