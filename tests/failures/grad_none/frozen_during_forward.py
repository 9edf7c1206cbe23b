# code: BS213
# variable: net[0].weight | net.0.weight
# cause: ratio = net[0].weight.grad.abs().mean() / net[2].weight.grad.abs().mean()
# fix: requires_grad
import torch
from torch import nn

net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
net[0].requires_grad_(False)
output = net(torch.randn(3, 4))
net[0].requires_grad_(True)
output.sum().backward()
ratio = net[0].weight.grad.abs().mean() / net[2].weight.grad.abs().mean()
