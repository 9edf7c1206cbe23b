# code: BS200
# variable: numel
# cause: print(sum(p.numel() for p in network.parameters()))
# fix: if not torch.nn.parameter.is_lazy(p)
import torch
from torch import nn

torch.manual_seed(0)
network = nn.Sequential(nn.LazyConv1d(4, 3), nn.ReLU(), nn.Flatten(), nn.LazyLinear(2))
print(sum(p.numel() for p in network.parameters()))
optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
for _ in range(2):
    loss = network(torch.randn(8, 2, 9)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
