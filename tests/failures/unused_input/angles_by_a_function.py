# code: BS204
# variable: angles(joints)
# cause: return torch.atan2(joints[:, 1], joints[:, 0]).unsqueeze(1)
# fix: Call angles(joints) once
import torch
from torch import nn


def angles(joints):
    return torch.atan2(joints[:, 1], joints[:, 0]).unsqueeze(1)


net = nn.Sequential(nn.Linear(1, 6), nn.Tanh(), nn.Linear(6, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    joints = torch.randn(12, 2, requires_grad=True)
    torque = net(angles(joints))
    gain = torch.autograd.grad(torque.sum(), angles(joints), create_graph=True)[0]
    loss = (torque - 1).square().mean() + gain.abs().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
