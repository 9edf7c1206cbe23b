# code: BS201
# variable: tracker.memory
# cause: self.memory = self.update(messages, self.memory)
# fix: tracker.memory = tracker.memory.detach()
import torch
from torch import nn

torch.manual_seed(0)


class Tracker(nn.Module):
    def __init__(self, nodes=6, dim=4):
        super().__init__()
        self.message = nn.Linear(3, dim)
        self.update = nn.GRUCell(dim, dim)
        self.start = nn.Parameter(torch.zeros(nodes, dim))
        self.score = nn.Linear(dim, 1)
        self.memory = None

    def forward(self, events):
        messages = self.message(events)
        if self.memory is None:
            self.memory = self.update(messages, self.start)
        else:
            self.memory = self.update(messages, self.memory)
        return self.score(self.memory)


tracker = Tracker()
optimizer = torch.optim.Adam(tracker.parameters(), lr=1e-2)
for day in range(4):
    events, labels = torch.randn(3, 6, 3), torch.rand(3, 6, 1).round()
    losses = [nn.functional.binary_cross_entropy_with_logits(tracker(x), y) for x, y in zip(events, labels)]
    loss = torch.stack(losses).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(day, loss.item())
