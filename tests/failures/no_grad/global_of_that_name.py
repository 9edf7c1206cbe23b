# code: BS203
# variable: loss
# cause: return torch.tensor(out.detach().numpy().mean())
# fix: return out.mean()
import torch
from torch import nn

model = nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, labels = torch.randn(8, 4), torch.randint(0, 3, (8,))


def error(out):
    return torch.tensor(out.detach().numpy().mean())


out = torch.zeros(3)
loss = error(model(x))
loss.backward()
