# code: BS203
# variable: loss
# cause: self.before = map(lambda p: p.requires_grad, self.parameters)
# fix: self.before = list(map(lambda p: p.requires_grad, self.parameters))
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits as bce


class Fixed:
    """Keeps a module fixed for the length of a block."""

    def __init__(self, module):
        self.parameters = list(module.parameters())

    def __enter__(self):
        self.before = map(lambda p: p.requires_grad, self.parameters)
        for p in self.parameters:
            p.requires_grad = False

    def __exit__(self, *raised):
        for p, before in zip(self.parameters, self.before):
            p.requires_grad = before


features = nn.Sequential(nn.Linear(5, 8), nn.Tanh())
domain = nn.Linear(8, 1)
of_features = torch.optim.Adam(features.parameters())
of_domain = torch.optim.Adam(domain.parameters())
for step in range(3):
    source, target = torch.randn(6, 5), torch.randn(6, 5) + 1
    with Fixed(domain):
        confused = bce(domain(features(target)), torch.ones(6, 1))
        of_features.zero_grad()
        confused.backward()
        of_features.step()
    with torch.no_grad():
        codes = features(torch.cat([source, target]))
    loss = bce(domain(codes), torch.cat([torch.ones(6, 1), torch.zeros(6, 1)]))
    of_domain.zero_grad()
    loss.backward()
    of_domain.step()
