"""Siamese verification network; pairs become harder after the first epochs."""
import torch
import torch.nn as nn


class PairSampler:
    """Draws (anchor, other, same) pairs from a pool of identities."""

    def __init__(self, n_ids=30, per_id=12, dim=20, seed=0):
        g = torch.Generator().manual_seed(seed)
        centers = torch.randn(n_ids, dim, generator=g)
        nuisance = torch.randn(6, dim, generator=torch.Generator().manual_seed(5))
        noise = torch.randn(n_ids, per_id, 6, generator=g) @ nuisance
        self.x = centers[:, None] + 0.8 * noise
        self.n_ids, self.per_id = n_ids, per_id

    def draw(self, n, hard_fraction):
        ids = torch.randint(0, self.n_ids, (n,))
        same = torch.rand(n) < 0.5
        other = torch.where(same, ids, (ids + torch.randint(1, self.n_ids, (n,))) % self.n_ids)
        i = torch.randint(0, self.per_id, (n,))
        j = (i + torch.randint(1, self.per_id, (n,))) % self.per_id
        a, b = self.x[ids, i], self.x[other, j]
        hard = torch.rand(n) < hard_fraction
        if hard.any():
            j_hard = torch.randint(0, self.per_id, (n,))
            b = torch.where((hard & same).unsqueeze(1), self.x[ids, j_hard], b)
        return a, b, same.float()


class Embedder(nn.Module):
    def __init__(self, dim=20, out=16):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(dim, 64), nn.ReLU(), nn.Linear(64, out))

    def forward(self, x):
        return self.net(x)


def euclidean(a, b):
    return torch.sqrt(((a - b) ** 2).sum(dim=1))


class ContrastiveLoss(nn.Module):
    def __init__(self, margin=2.0):
        super().__init__()
        self.margin = margin

    def forward(self, a, b, same):
        d = euclidean(a, b)
        pull = same * d.pow(2)
        push = (1 - same) * torch.relu(self.margin - d).pow(2)
        return (pull + push).mean()


@torch.no_grad()
def verification_accuracy(model, sampler, n=2000):
    a, b, same = sampler.draw(n, 0.0)
    d = euclidean(model(a), model(b))
    threshold = 0.5 * (d[same == 1].mean() + d[same == 0].mean())
    return ((d < threshold).float() == same).float().mean().item()


def train(epochs=8, steps_per_epoch=40, batch=32, lr=2e-3, hard_from=3):
    torch.manual_seed(3)
    sampler = PairSampler()
    model = Embedder()
    criterion = ContrastiveLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    for epoch in range(epochs):
        fraction = 0.0 if epoch < hard_from else 0.15
        for _ in range(steps_per_epoch):
            a, b, same = sampler.draw(batch, fraction)
            loss = criterion(model(a), model(b), same)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_value_(model.parameters(), 1.0)
            optimizer.step()
        print(f"epoch {epoch} verification accuracy {verification_accuracy(model, sampler):.3f}")


if __name__ == "__main__":
    train()
