# code: BS201
# variable: anchor | distance_to_anchor
# cause: distance_to_anchor = partial(distance, anchor=encoder(anchor_input))
# fix: Recompute
from functools import partial

import torch
from torch import nn

encoder = nn.Sequential(nn.Linear(3, 6), nn.Tanh())
optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1)
anchor_input = torch.randn(1, 3)


def distance(x, anchor):
    return (
        (x - anchor)
        .pow(2)
        .sum(dim=1)
        .mean()
    )


distance_to_anchor = partial(distance, anchor=encoder(anchor_input))
for batch in torch.randn(3, 4, 3):
    loss = distance_to_anchor(encoder(batch))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
