# code: BS204
# variable: x
# cause: sdf = field(points)
# fix: sdf = field(x)
import torch
from torch import nn

torch.manual_seed(0)
field = nn.Sequential(nn.Linear(3, 32), nn.Softplus(beta=20), nn.Linear(32, 1))
adam = torch.optim.Adam(field.parameters(), lr=1e-3)


def eikonal(points):
    x = torch.clone(points).detach().requires_grad_(True)
    sdf = field(points)
    (normal,) = torch.autograd.grad(sdf, x, torch.ones_like(sdf), create_graph=True)
    return (normal.norm(dim=-1) - 1).square().mean()


for _ in range(3):
    loss = eikonal(torch.randn(64, 3))
    adam.zero_grad()
    loss.backward()
    adam.step()
