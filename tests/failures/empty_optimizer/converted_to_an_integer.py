# code: BS223
# variable: model
# cause: def __int__(self, width=16):
# fix: Rename __int__ to __init__
import torch
from torch import nn


class Tagger(nn.Module):
    def __int__(self, width=16):
        super().__init__()
        self.drop = nn.Dropout(0.1)
        self.body = nn.Sequential(nn.Linear(8, width), nn.ReLU())
        self.head = nn.Linear(width, 3)

    def forward(self, x):
        return self.head(self.drop(self.body(x)))


def make(cls, lr):
    model = cls()
    return model, torch.optim.Adam(model.parameters(), lr=lr)


torch.manual_seed(0)
model, optimizer = make(Tagger, 1e-2)
for _ in range(3):
    loss = nn.functional.cross_entropy(model(torch.randn(8, 8)), torch.randint(0, 3, (8,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())
