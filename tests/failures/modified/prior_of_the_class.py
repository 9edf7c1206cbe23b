# code: BS202
# variable: Prior.scale
# cause: scale = torch.sigmoid(encoder(torch.zeros(1, 4)) @ encoder.weight)
# fix: Recompute Prior.scale
import torch
from torch import nn

encoder, head = nn.Linear(4, 4), nn.Linear(4, 2)
optimizer = torch.optim.SGD([*encoder.parameters(), *head.parameters()], lr=0.1, momentum=0.9)


class Prior:
    scale = torch.sigmoid(encoder(torch.zeros(1, 4)) @ encoder.weight)


def loss_of(x):
    return head(encoder(x) * Prior.scale).square().mean()


for _ in range(3):
    loss = loss_of(torch.randn(3, 4))
    optimizer.zero_grad()
    loss.backward(retain_graph=True)
    optimizer.step()
