# code: BS205
# variable: self.weight | items.weight
# cause: self.weight.div_(lengths.clamp(min=1.0))
# fix: no_grad
import torch
from torch import nn


class UnitBall(nn.Embedding):
    def project(self):
        lengths = self.weight.norm(dim=1, keepdim=True)
        self.weight.div_(lengths.clamp(min=1.0))


items = UnitBall(20, 4)
optimizer = torch.optim.Adagrad(items.parameters(), lr=0.5)
for _ in range(3):
    optimizer.zero_grad()
    items(torch.randint(20, (8,))).sum().backward()
    optimizer.step()
items.project()
