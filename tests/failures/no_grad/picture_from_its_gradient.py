# code: BS203
# variable: distance
# cause: found = take["plain"](guess, net.parameters())
# fix: create_graph=True)`, so that this gradient
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 16), nn.Sigmoid(), nn.Linear(16, 3))
real, label = torch.randn(1, 8), torch.tensor([1])
take = {"plain": torch.autograd.grad}
original = take["plain"](F.cross_entropy(net(real), label), net.parameters())
dummy = torch.randn(1, 8, requires_grad=True)
opt = torch.optim.Adam([dummy], lr=0.1)
for it in range(5):
    opt.zero_grad()
    guess = F.cross_entropy(net(dummy), label)
    found = take["plain"](guess, net.parameters())
    distance = sum(((a - b) ** 2).sum() for a, b in zip(found, original))
    distance.backward()
    opt.step()
    print(it, distance.item())
