# code: BS203
# variable: column
# cause: rows.append(Row((h - k).pow(2).mean().item(), h.abs().mean().item()))
# fix: rows.append(Row((h - k).pow(2).mean(), h.abs().mean()))
import torch
from torch import nn

torch.manual_seed(0)
model, head = nn.Linear(4, 4), nn.Linear(4, 1)
optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=0.1)
x = torch.randn(5, 4)


class Row:
    def __init__(self, error, size):
        self.error, self.size = error, size


rows = []
for k in range(3):
    h = model(x)
    rows.append(Row((h - k).pow(2).mean().item(), h.abs().mean().item()))


def column(name):
    return torch.tensor([getattr(r, name) for r in rows])


(column("error").sum() + column("size").sum()).backward()
