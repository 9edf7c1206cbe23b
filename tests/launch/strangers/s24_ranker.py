"""Regression of relevance grades per query, grades are standardised within each query."""
import random
import torch
import torch.nn as nn

random.seed(1)
torch.manual_seed(1)


class Ranker(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(14, 32)
        self.norm = nn.LayerNorm(32)
        self.out = nn.Linear(32, 1)

    def forward(self, f):
        return self.out(torch.relu(self.norm(self.inp(f)))).squeeze(-1)


def standardise(g):
    return (g - g.mean()) / (g.std() + 1e-6)


w = torch.randn(14)
queries = []
for q in range(140):
    docs = random.randint(4, 20) if q != 96 else 1
    f = torch.randn(docs, 14)
    queries.append((f, f @ w + 0.2 * torch.randn(docs) + 3 * random.random()))

model = Ranker()
optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
for epoch in range(2):
    good = pairs = 0
    for n, (feats, grades) in enumerate(queries, 1):
        scores = model(feats)
        loss = nn.functional.mse_loss(scores, standardise(grades))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        s, g = scores.detach(), grades
        good += ((s[:, None] > s[None]) & (g[:, None] > g[None])).sum().item()
        pairs += (g[:, None] > g[None]).sum().item()
        if n % 35 == 0:
            print(f'epoch {epoch} query {n} pairs in order {good / max(pairs, 1):.3f}')
            good = pairs = 0
