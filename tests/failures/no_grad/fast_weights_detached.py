# code: BS203
# variable: loss
# cause: fast, bias = w.detach(), b.detach()
# fix: fast, bias = w, b
import torch
from torch import nn

model = nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, labels = torch.randn(8, 4), torch.randint(0, 3, (8,))


def adapted(w, b):
    fast, bias = w.detach(), b.detach()
    return (fast * x[:3].T).sum() + bias.sum()


loss = adapted(model.weight.T, model.bias)
loss.backward()
