# code: BS203
# variable: loss
# cause: sums.append(row.sum().item())
# varied: return torch.tensor([each for each in sums]).mean()
# fix: write `sums.append(row.sum())`, without .item(), and replace
# or: return torch.tensor([2 * each for each in sums]).mean()
# or: return torch.tensor([each for each in sums if each is not None]).mean()
import torch
from torch import nn

model = nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, labels = torch.randn(8, 4), torch.randint(0, 3, (8,))


def average(logits):
    sums = []
    for row in logits:
        sums.append(row.sum().item())
    return torch.tensor([each for each in sums]).mean()


loss = average(model(x))
loss.backward()
