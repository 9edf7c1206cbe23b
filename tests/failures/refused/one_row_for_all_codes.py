# code: BS200
# variable: optimizer.step
# cause: self.codes = nn.Parameter(start.expand(5, 3))
# fix: write `self.codes = nn.Parameter(start.expand(5, 3).clone())`
import torch
from torch import nn


class Book(nn.Module):
    def __init__(self, start):
        super().__init__()
        self.codes = nn.Parameter(start.expand(5, 3))
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, x):
        return self.scale * torch.cdist(x, self.codes).min(dim=1).values.mean()


torch.manual_seed(0)
data = torch.randn(20, 3)
book = Book(data.mean(dim=0))
optimizer = torch.optim.SGD(book.parameters(), lr=0.1, momentum=0.9)
for _ in range(5):
    optimizer.zero_grad()
    book(data).backward()
    optimizer.step()
