# code: BS212
# variable: errors
# cause: errors = (net(x).squeeze(1) - y).square()
# fix: put errors = errors.sum() there
import torch
from torch import nn

net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
sizes = {}


def keep_size(layer, grad_input, grad_output):
    sizes[layer] = grad_output[0].norm(dim=1)


for layer in net:
    layer.register_full_backward_hook(keep_size)

for step in range(4):
    x = torch.randn(16, 3)
    y = x.sum(1)
    errors = (net(x).squeeze(1) - y).square()
    optimizer.zero_grad()
    errors.backward()
    largest = max(size.max().item() for size in sizes.values())
    for group in optimizer.param_groups:
        group["lr"] = 0.05 / max(largest, 1.0)
    optimizer.step()
