# code: BS202
# variable: model.2.weight
# cause: torch._foreach_clamp_min_(weights, 0.0)
# fix: below
import torch
from torch import nn

model = nn.Sequential(nn.Linear(4, 6), nn.Softplus(), nn.Linear(6, 1))
weights = [layer.weight for layer in model if isinstance(layer, nn.Linear)]
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def project():
    """Keep the weights positive, so that the network is monotone."""
    with torch.no_grad():
        torch._foreach_clamp_min_(weights, 0.0)


for _ in range(3):
    x = torch.rand(8, 4, requires_grad=True)
    out = model(x)
    loss = (out - x.sum(1, keepdim=True)).abs().mean()
    project()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
