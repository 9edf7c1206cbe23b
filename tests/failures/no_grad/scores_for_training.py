# code: BS203
# variable: loss
# cause: @torch.no_grad()
# fix: Remove @torch.no_grad() from score
import torch
from torch import nn


class Tower(nn.Module):
    def __init__(self, n, d=16):
        super().__init__()
        self.table = nn.Embedding(n, d)
        self.out = nn.Linear(d, d)

    def forward(self, ids):
        return torch.tanh(self.out(self.table(ids)))


class Retriever:
    def __init__(self, items=40):
        self.query, self.item = Tower(items), Tower(items)
        self.optimizer = torch.optim.Adam([*self.query.parameters(), *self.item.parameters()], lr=1e-2)

    @torch.no_grad()
    def score(self, q, i):
        return (self.query(q) * self.item(i)).sum(-1)

    def recall(self, pairs):
        hits = 0
        for q, i in pairs.tolist():
            every = self.score(torch.full((40,), q), torch.arange(40))
            hits += int(every.argmax() == i)
        return hits / len(pairs)

    def fit(self, pairs):
        q, i = pairs.t()
        negative = torch.randint(0, 40, i.shape)
        margin = self.score(q, i) - self.score(q, negative)
        loss = torch.nn.functional.softplus(-margin).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


torch.manual_seed(0)
pairs = torch.stack([torch.arange(40), torch.arange(40).roll(3)], 1)
model = Retriever()
for epoch in range(5):
    print(epoch, model.recall(pairs), model.fit(pairs))
