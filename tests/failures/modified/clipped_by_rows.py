# code: BS202
# variable: part
# cause: part.clamp_(0, 1)
# fix: Modify a copy of it, created
import torch
from torch import nn

torch.manual_seed(0)
model, head = nn.Linear(4, 4), nn.Linear(4, 1)
optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=0.1)
x = torch.randn(5, 4)


def clip(values):
    with torch.no_grad():
        for part in values.unbind(0):
            part.clamp_(0, 1)


def loss_of(x):
    h = torch.exp(model(x))
    loss = head(h).sum()
    clip(h)
    return loss


loss_of(x).backward()
