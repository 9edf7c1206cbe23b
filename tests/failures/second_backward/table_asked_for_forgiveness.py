# code: BS201
# variable: _TABLES | _TABLES[7]
# cause: table = _TABLES[length] = encode(grid)
# fix: Recompute encode(grid)
"""Positions are embedded once for each length and kept in a global dictionary; they were never meant to be trained."""

import torch
from torch import nn

_TABLES = {}
encode = nn.Sequential(nn.Linear(1, 6), nn.Tanh(), nn.Linear(6, 4))


def positions(length):
    try:
        return _TABLES[length]
    except KeyError:
        grid = torch.linspace(0, 1, length)[:, None]
        table = _TABLES[length] = encode(grid)
        return table


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.out = nn.Embedding(20, 4), nn.Linear(4, 3)

    def forward(self, words):
        return self.out(self.words(words) * positions(words.shape[1]))


torch.manual_seed(0)
tagger = Tagger()
optimizer = torch.optim.Adam([*tagger.parameters(), *encode.parameters()])
for _ in range(3):
    words, tags = torch.randint(20, (8, 7)), torch.randint(3, (8, 7))
    loss = nn.functional.cross_entropy(tagger(words).flatten(0, 1), tags.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
