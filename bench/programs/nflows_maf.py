"""A masked autoregressive flow learns two moons."""

import torch
from _digest import digest
from nflows.distributions.normal import StandardNormal
from nflows.flows.base import Flow
from nflows.transforms.autoregressive import MaskedAffineAutoregressiveTransform
from nflows.transforms.base import CompositeTransform
from nflows.transforms.permutations import ReversePermutation

torch.manual_seed(0)
transforms = []
for _ in range(4):
    transforms.append(ReversePermutation(features=2))
    transforms.append(MaskedAffineAutoregressiveTransform(features=2, hidden_features=8))
flow = Flow(CompositeTransform(transforms), StandardNormal(shape=[2]))
optimizer = torch.optim.Adam(flow.parameters(), lr=1e-3)
for _step in range(100):
    angle = torch.rand(128) * 3.14
    x = torch.stack([angle.cos(), angle.sin()], dim=1) + 0.05 * torch.randn(128, 2)
    optimizer.zero_grad()
    loss = -flow.log_prob(inputs=x).mean()
    loss.backward()
    optimizer.step()
print(loss.item())
print(digest(flow))
