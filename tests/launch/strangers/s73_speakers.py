"""Siamese embedding for speaker-like clusters, contrastive margin loss on random pairs."""
import math

import torch
import torch.nn as nn

torch.manual_seed(0)
gen = torch.Generator().manual_seed(42)


def make_speakers(n_speakers=12, per=300, dim=20):
    centres = torch.randn(n_speakers, dim, generator=gen) * 1.2
    utterances = centres[:, None] + torch.randn(n_speakers, per, dim, generator=gen)
    labels = torch.arange(n_speakers)[:, None].expand(-1, per)
    return utterances.reshape(-1, dim), labels.reshape(-1)


class PairSampler:
    """Half of the pairs come from one speaker."""

    def __init__(self, labels, batch):
        self.labels, self.batch = labels, batch
        self.by_label = [torch.nonzero(labels == k).squeeze(1) for k in labels.unique()]

    def _pick(self, pool):
        return pool[torch.randint(0, len(pool), (1,), generator=gen)].item()

    def sample(self):
        left, right = [], []
        for k in range(self.batch):
            a = torch.randint(0, len(self.by_label), (1,), generator=gen).item()
            b = a
            while k % 2 and b == a:
                b = torch.randint(0, len(self.by_label), (1,), generator=gen).item()
            left.append(self._pick(self.by_label[a]))
            right.append(self._pick(self.by_label[b]))
        left, right = torch.tensor(left), torch.tensor(right)
        return left, right, (self.labels[left] == self.labels[right]).float()


class Embedder(nn.Module):
    def __init__(self, d_in, d_out=8):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d_in, 32), nn.Tanh(), nn.Linear(32, d_out))

    def forward(self, x):
        return self.net(x)


def distance(a, b):
    return (a - b).square().sum(-1).sqrt()


def contrastive(za, zb, same, margin=2.0):
    d = distance(za, zb)
    return (same * d.square() + (1 - same) * torch.relu(margin - d).square()).mean()


def equal_accuracy(model, x, labels):
    with torch.no_grad():
        z = model(x)
        d = torch.cdist(z, z).fill_diagonal_(1e9)
        return (labels[d.argmin(1)] == labels).float().mean().item()


def main(steps=600, batch=4):
    x, labels = make_speakers()
    sampler, model = PairSampler(labels, batch), Embedder(x.size(1))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    window = []
    for step in range(1, steps + 1):
        i, j, same = sampler.sample()
        loss = contrastive(model(x[i]), model(x[j]), same)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        window.append(loss.item())
        if step % 40 == 0:
            mean = math.fsum(window) / len(window)
            window.clear()
            print(f"step {step:4d} loss {mean:.4f} nearest neighbour accuracy {equal_accuracy(model, x, labels):.3f}")


if __name__ == "__main__":
    main()
