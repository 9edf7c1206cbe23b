# code: BS203
# variable: loss
# cause: loss = model(part).detach().sum()
# fix: loss = model(part).sum()
import torch
from torch import nn

model = nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, labels = torch.randn(8, 4), torch.randint(0, 3, (8,))


def batches(number):
    with torch.set_grad_enabled(number > 1):
        for _ in range(number):
            part = torch.randn(5, 4)
            yield part
        pass


for part in batches(2):
    loss = model(part).detach().sum()
    loss.backward()
