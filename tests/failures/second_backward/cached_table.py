# code: BS201
# variable: self._cache | model.positions._cache
# cause: self._cache[length] = self.project(self.table[:length])
# fix: Recompute
import torch
import torch.nn.functional as F
from torch import nn


class RelativePositions(nn.Module):
    def __init__(self, longest, width):
        super().__init__()
        self.register_buffer("table", torch.randn(longest, width))
        self.project = nn.Sequential(nn.Linear(width, width), nn.GELU())
        self._cache = {}

    def forward(self, length):
        if length not in self._cache:
            self._cache[length] = self.project(self.table[:length])
        return self._cache[length]


class Encoder(nn.Module):
    def __init__(self, vocab=30, width=16):
        super().__init__()
        self.tokens = nn.Embedding(vocab, width)
        self.positions = RelativePositions(64, width)
        self.layer = nn.TransformerEncoderLayer(width, 2, 32, batch_first=True, dropout=0.0)
        self.out = nn.Linear(width, vocab)

    def forward(self, ids):
        h = self.tokens(ids) + self.positions(ids.shape[1])
        return self.out(self.layer(h))


def train(model, steps):
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(steps):
        ids = torch.randint(0, 30, (2, 8))
        logits = model(ids)
        loss = F.cross_entropy(logits.flatten(0, 1), ids.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


train(Encoder(), steps=3)
