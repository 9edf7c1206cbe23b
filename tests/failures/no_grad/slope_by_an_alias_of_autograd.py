# code: BS203
# variable: loss
# cause: slope = ag.grad(model(x).sum(), x)[0]
# fix: slope = ag.grad(model(x).sum(), x, create_graph=True)[0]
import torch
import torch.autograd as ag
from torch import nn

model = nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, labels = torch.randn(8, 4), torch.randint(0, 3, (8,))

x = x.requires_grad_()
target = model(x).mean().detach()
slope = ag.grad(model(x).sum(), x)[0]
loss = (slope.norm() - target) ** 2
loss.backward()
