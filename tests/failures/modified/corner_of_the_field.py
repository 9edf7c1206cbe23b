# code: BS202
# variable: field
# cause: field[:, :2] = corner + seen
# fix: field = field.clone()
import torch
from torch import nn


class Field(nn.Module):
    def __init__(self):
        super().__init__()
        self.grow = nn.Linear(5, 5)
        self.look = nn.Linear(2, 2)
        self.sum_up = nn.Linear(5, 1)

    def forward(self, seeds):
        field = self.grow(seeds)
        corner = field.narrow(1, 0, 2)
        seen = torch.tanh(self.look(corner))
        field[:, :2] = corner + seen
        return self.sum_up(field)


torch.manual_seed(0)
model = Field()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    loss = model(torch.randn(8, 5)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
