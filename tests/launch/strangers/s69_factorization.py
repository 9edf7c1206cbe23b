"""Matrix factorisation for ratings, with side features for cold items."""
import numpy as np
import torch
from torch import nn

rng = np.random.default_rng(0)
torch.manual_seed(0)

N_USERS, N_ITEMS, RANK = 200, 120, 6


def make_ratings(n=9000):
    u_true = rng.normal(size=(N_USERS, RANK))
    v_true = rng.normal(size=(N_ITEMS, RANK))
    users = rng.integers(0, N_USERS, n)
    items = rng.integers(0, N_ITEMS, n)
    ratings = (u_true[users] * v_true[items]).sum(1) / np.sqrt(RANK) + 0.1 * rng.normal(size=n)
    return torch.tensor(users), torch.tensor(items), torch.tensor(ratings, dtype=torch.float32)


class Table(nn.Module):
    """An embedding plus a bias, with dropout of whole rows."""

    def __init__(self, n, rank, drop=0.0):
        super().__init__()
        self.vectors = nn.Embedding(n, rank)
        self.bias = nn.Embedding(n, 1)
        nn.init.normal_(self.vectors.weight, std=0.3)
        nn.init.zeros_(self.bias.weight)
        self.drop = drop

    def rows(self, ids):
        table = self.vectors.weight.data
        if self.training and self.drop:
            keep = (torch.rand(table.size(0), 1) > self.drop).float()
            table = table * keep
        return table[ids]

    def forward(self, ids):
        return self.rows(ids), self.bias(ids).squeeze(-1)


class Recommender(nn.Module):
    def __init__(self):
        super().__init__()
        self.users = nn.Embedding(N_USERS, RANK)
        self.items = Table(N_ITEMS, RANK, drop=0.02)
        self.mean = nn.Parameter(torch.zeros(()))
        nn.init.normal_(self.users.weight, std=0.3)

    def forward(self, user_ids, item_ids):
        item_vec, item_bias = self.items(item_ids)
        return self.mean + item_bias + (self.users(user_ids) * item_vec).sum(-1)


class Callback:
    def on_epoch(self, epoch, logs): ...


class Printer(Callback):
    def on_epoch(self, epoch, logs):
        if epoch % 5 == 4:
            print("epoch", epoch + 1, " ".join(f"{k} {v:.4f}" for k, v in logs.items()))


def fit(model, train, test, epochs, callbacks):
    opt = torch.optim.Adam(model.parameters(), lr=2e-2, weight_decay=0.0)
    for epoch in range(epochs):
        model.train()
        sq = 0.0
        for idx in torch.randperm(len(train[0])).split(256):
            u, i, r = (t[idx] for t in train)
            loss = (model(u, i) - r).pow(2).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            sq += loss.item() * len(idx)
        model.eval()
        with torch.no_grad():
            test_rmse = (model(test[0], test[1]) - test[2]).pow(2).mean().sqrt().item()
        logs = {"train_rmse": (sq / len(train[0])) ** 0.5, "test_rmse": test_rmse,
                "user_norm": model.users.weight.norm().item(), "item_norm": model.items.vectors.weight.norm().item()}
        for cb in callbacks:
            cb.on_epoch(epoch, logs)


users, items, ratings = make_ratings()
cut = 8000
fit(Recommender(), (users[:cut], items[:cut], ratings[:cut]), (users[cut:], items[cut:], ratings[cut:]), 40, [Printer()])
