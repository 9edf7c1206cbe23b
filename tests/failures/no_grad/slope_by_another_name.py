# code: BS203
# variable: loss
# cause: slope = derive(model(x).sum(), x)[0]
# fix: slope = derive(model(x).sum(), x, create_graph=True)[0]
import torch
from torch import nn
from torch.autograd import grad as derive

model = nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, labels = torch.randn(8, 4), torch.randint(0, 3, (8,))

x = x.requires_grad_()
target = model(x).mean().detach()
slope = derive(model(x).sum(), x)[0]
loss = (slope.norm() - target) ** 2
loss.backward()
