# code: BS203
# variable: smoothness
# cause: (force,) = torch.autograd.grad(energy, positions, create_graph=True)
# fix: create_graph=True is there already
import torch

positions = torch.linspace(0, 1, 8, requires_grad=True)
heights = torch.randn(8)
optimizer = torch.optim.SGD([positions], lr=0.1)
for step in range(3):
    energy = (heights * positions).sum()
    (force,) = torch.autograd.grad(energy, positions, create_graph=True)
    smoothness = force.diff().square().mean()
    optimizer.zero_grad()
    smoothness.backward()
    optimizer.step()
