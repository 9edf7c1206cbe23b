# code: BS202
# variable: model.item_emb.weight
# cause: seq = self.item_emb(history)
# fix: self.item_emb.weight.clone()
import torch
import torch.nn as nn
import torch.nn.functional as F


class TiedRecommender(nn.Module):
    """Scores the next item against all the items, with tied, norm-bounded embeddings."""

    def __init__(self, items, dim):
        super().__init__()
        self.item_emb = nn.Embedding(items, dim, max_norm=1.0)
        self.mix = nn.GRU(dim, dim, batch_first=True)
        self.adapt = nn.Linear(dim, dim)

    def forward(self, history):
        catalogue = torch.tanh(self.adapt(self.item_emb.weight))
        seq = self.item_emb(history)
        _, h = self.mix(seq)
        return h[-1] @ catalogue.t()


class Loader:
    def __init__(self, items, n):
        self.items, self.n = items, n

    def __iter__(self):
        for _ in range(self.n):
            s = torch.randint(0, self.items, (8, 7))
            yield s[:, :-1], s[:, -1]


def train():
    torch.manual_seed(0)
    model = TiedRecommender(50, 16)
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for hist, nxt in Loader(50, 4):
        loss = F.cross_entropy(model(hist), nxt)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(loss.item())


train()
