"""A neural spline flow under a condition."""

import torch
import zuko
from _digest import digest

torch.manual_seed(0)
flow = zuko.flows.NSF(features=2, context=1, transforms=2, hidden_features=(32, 32))
optimizer = torch.optim.Adam(flow.parameters(), lr=1e-3)
for _step in range(50):
    c = torch.rand(64, 1)
    x = torch.randn(64, 2) * 0.1 + c
    loss = -flow(c).log_prob(x).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
print(loss.item(), flow(torch.tensor([0.5])).sample((4,)).shape)
print(digest(flow))
