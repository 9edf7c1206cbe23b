# code: BS201
# variable: curve
# cause: curve[t] = node(curve[t - 1].clone(), drive[t]).squeeze()
# fix: `curve = curve.detach()` above line 24
import torch
from torch import nn


class Node(nn.Module):
    def __init__(self):
        super().__init__()
        self.back = nn.Parameter(torch.tensor([0.5]))
        self.into = nn.Parameter(torch.tensor([0.1]))

    def forward(self, y, u):
        return torch.tanh(self.back * y + self.into * u)


node = Node()
optimizer = torch.optim.SGD(node.parameters(), lr=0.01)
drive, target = torch.ones(6), torch.exp(-0.2 * torch.arange(6.0))
curve = torch.zeros(6)
for epoch in range(4):
    curve[0] = 1.0
    for t in range(1, 6):
        curve[t] = node(curve[t - 1].clone(), drive[t]).squeeze()
    loss = (curve - target).pow(2).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
