# code: BS201
# variable: demand.store.places
# cause: self.store.put(item, self.cell(torch.cat([self.store.take(item), x])[None], self.store.take(item)[None])[0])
# fix: detach
import torch
from torch import nn


class Store:
    def __init__(self, size):
        self.size, self.places = size, {}

    def take(self, item):
        return self.places.setdefault(item, torch.zeros(self.size))

    def put(self, item, state):
        self.places[item] = state


class Demand(nn.Module):
    def __init__(self, size=4):
        super().__init__()
        self.store, self.cell, self.head = Store(size), nn.GRUCell(size + 2, size), nn.Linear(size, 1)

    def forward(self, sales):
        for item, x in sales:
            self.store.put(item, self.cell(torch.cat([self.store.take(item), x])[None], self.store.take(item)[None])[0])
        return torch.stack([self.head(self.store.take(item)) for item, _ in sales])


torch.manual_seed(0)
demand = Demand()
optimizer = torch.optim.SGD(demand.parameters(), lr=0.1)
for day in range(3):
    sales = [(item, torch.randn(2)) for item in (day % 2, 2)]
    loss = (demand(sales) - 1).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
