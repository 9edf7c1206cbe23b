# code: BS222
# variable: loss
# cause: losses.append(float(criterion(model(x), y)))
# fix: losses.append(criterion(model(x), y))
import torch
from torch import nn

model = nn.Linear(4, 3)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters())


def accumulate(batches):
    losses = []
    for x, y in batches:
        losses.append(float(criterion(model(x), y)))
    return sum(losses) / len(losses)


batches = [(torch.randn(8, 4), torch.randint(3, (8,))) for _ in range(4)]
optimizer.zero_grad()
loss = accumulate(batches)
loss.backward()
optimizer.step()
