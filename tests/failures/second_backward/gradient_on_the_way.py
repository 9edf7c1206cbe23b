# code: BS201
# variable: energy
# cause: force = -torch.autograd.grad(energy, x)[0]
# fix: create_graph=True
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 16), nn.Softplus(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)


def fit(x, reference):
    x = x.clone().requires_grad_()
    energy = net(x).sum()
    force = -torch.autograd.grad(energy, x)[0]
    return (force - reference[1]).square().mean() + (energy - reference[0]).square()


for _ in range(3):
    optimizer.zero_grad()
    loss = fit(torch.randn(8, 3), (torch.zeros(()), torch.zeros(8, 3)))
    loss.backward()
    optimizer.step()
