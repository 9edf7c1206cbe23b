# code: BS203
# variable: force
# cause: force = torch.autograd.grad(energy.sum(), place)[0]
# fix: Keep the graph of force
import torch
from torch import nn

torch.manual_seed(0)
net, reader = nn.Sequential(nn.Linear(3, 9), nn.Tanh(), nn.Linear(9, 1)), nn.Linear(3, 1)
optimizer = torch.optim.SGD([*net.parameters(), *reader.parameters()], lr=0.01)
for _ in range(3):
    place = torch.randn(8, 3, requires_grad=True)
    energy = net(place)
    force = torch.autograd.grad(energy.sum(), place)[0]
    work = reader(force).square()
    change = torch.autograd.grad(work.sum(), force, create_graph=True)[0]
    loss = change.square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
