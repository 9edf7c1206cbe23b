# code: BS220
# variable: torch.tensor(start)
# cause: self.weight = nn.Parameter(torch.tensor(start))
# fix: nn.Parameter(torch.tensor(start, dtype=torch.float32))
# or: self.weight = nn.Parameter(torch.as_tensor(start))
import torch
from torch import nn


class Score(nn.Module):
    def __init__(self, start):
        super().__init__()
        self.offset = nn.Parameter(torch.zeros(()))
        self.weight = nn.Parameter(torch.tensor(start))

    def forward(self, rows):
        return (rows * self.weight).sum(1) + self.offset


scores = [Score(start) for start in ([0.5, 1.0], [2, 1])]
optimizer = torch.optim.SGD([p for each in scores for p in each.parameters()], lr=0.1)
loss = sum(each(torch.randn(3, 2)).pow(2).mean() for each in scores)
loss.backward()
optimizer.step()
