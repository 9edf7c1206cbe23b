# code: BS204
# variable: events.time
# cause: return self.rows[..., 3:]
# fix: @functools.cached_property
import functools

import torch
from torch import nn


class Events:
    def __init__(self, rows):
        self.rows = rows

    @property
    def place(self):
        return self.rows[..., :3]

    @property
    def time(self):
        return self.rows[..., 3:]


class Intensity(nn.Module):
    def __init__(self):
        super().__init__()
        self.of_place = nn.Linear(3, 8)
        self.of_time = nn.Linear(1, 8)
        self.out = functools.partial(torch.sum, dim=-1)

    def forward(self, events):
        return self.out(torch.tanh(self.of_place(events.place) + self.of_time(events.time)))


model = Intensity()
optimizer = torch.optim.Adam(model.parameters())
for step in range(3):
    events = Events(torch.rand(16, 4, requires_grad=True))
    rate = model(events)
    time = events.time
    (change,) = torch.autograd.grad(rate.sum(), [time], create_graph=True)
    loss = rate.exp().mean() + change.square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
