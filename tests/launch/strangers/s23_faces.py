"""Metric learning with triplets on face descriptors."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class FaceEmbedding(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(32, 64)
        self.fc2 = nn.Linear(64, 16)

    def forward(self, x):
        return F.normalize(self.fc2(F.relu(self.fc1(x))), dim=1)


def euclid(a, b):
    return (a - b).pow(2).sum(dim=1).sqrt()


def triplet(a, p, n, margin=0.4):
    return F.relu(euclid(a, p) - euclid(a, n) + margin).mean()


class TripletSampler:
    def __init__(self, people=30, shots=12, seed=0):
        self.g = torch.Generator().manual_seed(seed)
        base = torch.randn(people, 1, 32, generator=self.g)
        self.photos = base + 0.8 * torch.randn(people, shots, 32, generator=self.g)
        self.people, self.shots = people, shots
        self.order = torch.cat([torch.randperm(people * 20, generator=self.g) % people for _ in range(8)])
        self.at = 0

    def next(self, n=24):
        who = self.order[self.at:self.at + n]
        self.at += n
        i = torch.randint(0, self.shots, (n,), generator=self.g)
        if self.at < 2400:
            j = (i + 1 + torch.randint(0, self.shots - 1, (n,), generator=self.g)) % self.shots
        else:
            j = torch.randint(0, self.shots, (n,), generator=self.g)
        other = (who + 1 + torch.randint(0, self.people - 1, (n,), generator=self.g)) % self.people
        k = torch.randint(0, self.shots, (n,), generator=self.g)
        return self.photos[who, i], self.photos[who, j], self.photos[other, k]


torch.manual_seed(0)
net, sampler = FaceEmbedding(), TripletSampler()
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for step in range(1, 181):
    a, p, n = sampler.next()
    a, p, n = net(a), net(p), net(n)
    loss = triplet(a, p, n)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 30 == 0:
        hard = (euclid(a, p) < euclid(a, n)).float().mean().item()
        print(f'step {step}: loss {loss.item():.4f} ranked right {hard:.2f}')
