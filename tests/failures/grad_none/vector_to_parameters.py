# code: BS213
# variable: direction.grad
# cause: torch.nn.utils.vector_to_parameters(flat, net.parameters())
# fix: torch.func.functional_call(net, {n: parts[n].view_as(p) for n, p in net.named_parameters()}, (x,))
"""A random subspace: all weights of a network from a few numbers."""

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
start, basis = torch.randn(21), torch.randn(21, 5)
direction = torch.zeros(5, requires_grad=True)
x, y = torch.randn(8, 3), torch.randn(8, 1)
for _ in range(3):
    flat = start + basis @ direction
    torch.nn.utils.vector_to_parameters(flat, net.parameters())
    loss = (net(x) - y).square().mean()
    loss.backward()
    with torch.no_grad():
        direction -= 0.1 * direction.grad
    direction.grad = None
