# code: BS219
# variable: task.stem.weight
# cause: task.stem.weight.requires_grad_(False)
# fix: leave it out of the update
import torch
from torch import nn


class Task(nn.Module):
    def __init__(self, of):
        super().__init__()
        self.stem, self.head = nn.Linear(4, 8), nn.Linear(8, 1)
        for mine, theirs in zip((self.stem, self.head), (of.stem, of.head)):
            for key in ("weight", "bias"):
                delattr(mine, key)
                mine._parameters[key] = getattr(theirs, key) * 1.0

    def forward(self, x):
        return self.head(torch.tanh(self.stem(x)))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.head = nn.Linear(4, 8), nn.Linear(8, 1)


torch.manual_seed(0)
model = Model()
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    task = Task(model)
    task.stem.weight.requires_grad_(False)
    loss = task(torch.randn(6, 4)).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(loss.item())
