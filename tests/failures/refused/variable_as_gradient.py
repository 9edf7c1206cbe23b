# code: BS200
# variable: energy.backward(positions)
# cause: energy.backward(positions)
# fix: energy.backward()
import torch

positions = torch.randn(5, 3, requires_grad=True)
optimizer = torch.optim.SGD([positions], lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    energy = torch.pdist(positions).sub(1).square().sum()
    energy.backward(positions)
    optimizer.step()
