# code: BS203
# variable: loss
# cause: return (out.argmax(dim=1).float() - target).mean()
# fix: Compute the loss from out itself
import torch
from torch import nn

model = nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, labels = torch.randn(8, 4), torch.randint(0, 3, (8,))


def difference(out, target):
    return (out.argmax(dim=1).float() - target).mean()


target = model(x).detach().argmax(dim=1)
out = model(x)
loss = difference(out, target)
loss.backward()
