# code: BS219
# variable: main.layers[1].shift
# cause: least, best = loss.item(), copy.deepcopy(main)
# fix: for each in (main.layers[0], main.layers[1]): each.scale = each.scale.detach(); each.shift = each.shift.detach()
import copy

import torch
from torch import nn

torch.manual_seed(0)


class Layer:
    def __init__(self, size):
        self.scale = torch.ones(size)
        self.shift = torch.zeros(size)

    def __call__(self, x):
        return torch.tanh(x * self.scale + self.shift)


class Modulated:
    def __init__(self, sizes):
        self.layers = [Layer(size) for size in sizes]

    def condition(self, given):
        for layer, part in zip(self.layers, given.chunk(2)):
            layer.scale, layer.shift = part.chunk(2)

    def run(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


hyper = nn.Linear(3, 16)
main = Modulated([4, 4])
optimizer = torch.optim.Adam(hyper.parameters(), lr=1e-2)
best, least = None, 1e9
for step in range(5):
    main.condition(hyper(torch.ones(3)))
    loss = main.run(torch.randn(8, 4)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if loss.item() < least:
        least, best = loss.item(), copy.deepcopy(main)
print(least)
