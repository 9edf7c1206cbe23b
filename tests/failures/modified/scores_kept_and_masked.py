# code: BS202
# variable: modified in place
# cause: masked[:, 0] = 0
# fix: clone()
import torch
from torch import nn


class Scorer(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        self.scores = torch.sigmoid(self.first(x))
        masked = self.scores
        masked[:, 0] = 0
        return self.last(masked)


scorer = Scorer()
loss = scorer(torch.randn(3, 4)).sum()
loss.backward()
