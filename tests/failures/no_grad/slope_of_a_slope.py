# code: BS203
# variable: output.sum
# cause: (found,) = torch.autograd.grad(output.sum(), point)
# fix: (found,) = torch.autograd.grad(output.sum(), point, create_graph=True)
import torch
from torch import nn

model = nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, labels = torch.randn(8, 4), torch.randint(0, 3, (8,))


def slope(output, point):
    (found,) = torch.autograd.grad(output.sum(), point)
    return found


point = torch.rand(10, 1, requires_grad=True)
tension = slope(point.sin(), point)
force = slope(tension, point)
