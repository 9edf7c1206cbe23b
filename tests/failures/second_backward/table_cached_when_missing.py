# code: BS201
# variable: self.table | model.graph.table
# cause: self.table = torch.softmax(self.weight, dim=1)
# fix: Recompute
import torch
from torch import nn


class Mixing(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width, width))
        self.table = None

    def forward(self, x):
        if self.table is None:
            self.table = torch.softmax(self.weight, dim=1)
        return x @ self.table


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.graph, self.out = Mixing(5), nn.Linear(5, 1)

    def forward(self, x):
        return self.out(torch.tanh(self.graph(x)))


model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    loss = model(torch.randn(4, 5)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
