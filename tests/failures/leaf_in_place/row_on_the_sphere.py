# code: BS205
# variable: items.weight
# cause: row /= length
# fix: no_grad
import torch
from torch import nn


class Sphere:
    def __init__(self, table):
        self.table = table

    def apply(self, touched):
        for index in touched:
            row = self.table.weight[index]
            length = row.norm()
            if length > 1:
                row /= length


items = nn.Embedding(12, 4)
sphere = Sphere(items)
optimizer = torch.optim.SGD(items.parameters(), lr=0.5)
ids = torch.randint(12, (6,))
items(ids).sum().backward()
optimizer.step()
sphere.apply(ids.unique().tolist())
