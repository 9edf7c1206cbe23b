# code: BS200
# variable: loss
# cause: loss.backward(sample_weight)
# fix: loss = (sample_weight * F.cross_entropy(scores, labels, reduction="none")).mean()
"""Samples are to count differently, and their weights are given to backward, after the loss has averaged them."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(5, 12), nn.ReLU(), nn.Linear(12, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
features, labels = torch.randn(30, 5), torch.randint(0, 3, (30,))
sample_weight = 0.5 + torch.rand(30)

for epoch in range(5):
    scores = model(features)
    loss = F.cross_entropy(scores, labels)
    optimizer.zero_grad()
    loss.backward(sample_weight)
    optimizer.step()
