"""Two-tower retrieval with in-batch negatives."""
import torch
import torch.nn as nn
import torch.nn.functional as F

N_USERS, N_ITEMS, LATENT, USER_DIM, ITEM_DIM = 1500, 160, 6, 40, 240


def build_data(seed=0):
    g = torch.Generator().manual_seed(seed)
    user_z = torch.randn(N_USERS, LATENT, generator=g)
    item_z = torch.randn(N_ITEMS, LATENT, generator=g)
    user_x = user_z @ torch.randn(LATENT, USER_DIM, generator=g)
    item_x = torch.cat([item_z, 2.5 * torch.randn(N_ITEMS, ITEM_DIM - LATENT, generator=g)], 1)
    item_x = item_x[:, torch.randperm(ITEM_DIM, generator=g)]
    liked = (user_z @ item_z.t()).topk(5, dim=1).indices
    return user_x + 0.1 * torch.randn(user_x.shape, generator=g), item_x, liked


class Tower(nn.Module):
    def __init__(self, in_dim, out_dim=16):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(in_dim, 48), nn.ReLU(), nn.Linear(48, out_dim))

    def forward(self, x):
        return F.normalize(self.net(x), dim=-1)


class ItemIndex:
    """Serves item vectors; every item is encoded once and kept."""

    def __init__(self, tower, features, dim=16):
        self.tower = tower
        self.features = features
        self.vectors = torch.zeros(len(features), dim)
        self.ready = torch.zeros(len(features), dtype=torch.bool)

    def lookup(self, ids):
        out = self.vectors[ids].clone()
        missing = ~self.ready[ids]
        if missing.any():
            fresh = self.tower(self.features[ids[missing]])
            out[missing] = fresh
            self.vectors[ids[missing]] = fresh.detach()
            self.ready[ids[missing]] = True
        return out


class Recommender:
    def __init__(self, item_x, lr=3e-3, tau=0.1):
        self.user_tower = Tower(USER_DIM)
        self.item_tower = Tower(ITEM_DIM)
        self.index = ItemIndex(self.item_tower, item_x)
        self.item_x = item_x
        self.tau = tau
        params = list(self.user_tower.parameters()) + list(self.item_tower.parameters())
        self.opt = torch.optim.Adam(params, lr=lr)

    def step(self, user_x, item_ids):
        u = self.user_tower(user_x)
        v = self.index.lookup(item_ids)
        logits = u @ v.t() / self.tau
        same = item_ids[:, None] == item_ids[None, :]
        same.fill_diagonal_(False)
        logits = logits.masked_fill(same, -1e4)
        loss = F.cross_entropy(logits, torch.arange(len(u)))
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss.item()

    @torch.no_grad()
    def hit_rate(self, user_x, liked, k=5):
        scores = self.user_tower(user_x) @ self.item_tower(self.item_x).t()
        top = scores.topk(k, dim=1).indices
        return (top[:, :, None] == liked[:, None, :]).any(2).float().mean().item()


def train(epochs=6, batch=32):
    torch.manual_seed(1)
    user_x, item_x, liked = build_data()
    n_train = 1300
    model = Recommender(item_x)
    for epoch in range(epochs):
        total = 0.0
        perm = torch.randperm(n_train)
        for start in range(0, n_train - batch + 1, batch):
            users = perm[start:start + batch]
            pick = torch.randint(0, 5, (batch,))
            total += model.step(user_x[users], liked[users, pick])
        print(f"epoch {epoch}  loss {total / (n_train // batch):.3f}  "
              f"hit@5 {model.hit_rate(user_x[n_train:], liked[n_train:]):.3f}")


if __name__ == "__main__":
    train()
