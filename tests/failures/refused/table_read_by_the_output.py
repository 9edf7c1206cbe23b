# code: BS200
# variable: tagger.words.weight
# cause: return F.linear(self.mix(self.words(x)), self.words.weight)
# fix: without sparse=True
import torch
import torch.nn.functional as F
from torch import nn


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(9, 4, sparse=True)
        self.places = nn.Embedding(5, 4, sparse=True)
        self.mix = nn.Linear(4, 4)

    def forward(self, x, at):
        return self.score(x) + self.places(at).sum(-1, keepdim=True)

    def score(self, x):
        return F.linear(self.mix(self.words(x)), self.words.weight)


tagger = Tagger()
optimizers = [
    torch.optim.SparseAdam([tagger.words.weight, tagger.places.weight], lr=0.01),
    torch.optim.Adam(tagger.mix.parameters(), lr=0.01),
]
for step in range(3):
    x = torch.randint(0, 9, (6,))
    loss = F.cross_entropy(tagger(x, x % 5), x)
    for each in optimizers:
        each.zero_grad()
    loss.backward()
    for each in optimizers:
        each.step()
