# code: BS200
# variable: model.read.weight
# cause: setattr(there, "weight", here.weight)
# fix: without sparse=True
import torch
from torch import nn


def share(here, there):
    setattr(there, "weight", here.weight)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.read = nn.Embedding(9, 4, sparse=True)
        self.write = nn.Linear(4, 9, bias=False)
        share(self.read, self.write)

    def forward(self, x):
        return self.write(self.read(x))


model = Model()
optimizer = torch.optim.SparseAdam(list(model.parameters()), lr=0.01)
x = torch.randint(0, 9, (6,))
nn.functional.cross_entropy(model(x), x).backward()
optimizer.step()
