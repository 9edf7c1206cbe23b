"""Bootstrap-your-own-latent on synthetic sensor windows, probed by a linear classifier."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F


class Windows:
    def __init__(self, n, seed, classes=5, length=40):
        g = torch.Generator().manual_seed(seed)
        self.y = torch.randint(0, classes, (n,), generator=g)
        t = torch.arange(length).float()
        freq = 0.2 + 0.18 * self.y.float().unsqueeze(1)
        phase = 6.28 * torch.rand(n, 1, generator=g)
        self.x = torch.sin(freq * t + phase) + 0.3 * torch.randn(n, length, generator=g)

    def augment(self, idx):
        x = torch.roll(self.x[idx], int(torch.randint(0, 40, (1,))), dims=1)
        x = x * (0.7 + 0.6 * torch.rand(len(idx), 1))
        return x + 0.3 * torch.randn_like(x)


def projector(i, h, o):
    return nn.Sequential(nn.Linear(i, h), nn.BatchNorm1d(h), nn.ReLU(), nn.Linear(h, o))


class BYOL(nn.Module):
    def __init__(self, length=40, dim=32, momentum=0.97):
        super().__init__()
        conv = nn.Sequential(nn.Unflatten(1, (1, length)), nn.Conv1d(1, 16, 7, stride=2), nn.ReLU(),
                             nn.Conv1d(16, 24, 5), nn.ReLU(), nn.AdaptiveAvgPool1d(2), nn.Flatten())
        self.online = nn.Sequential(conv, projector(48, 64, dim))
        self.target = copy.deepcopy(self.online)
        self.predictor = projector(dim, 64, dim)
        self.momentum = momentum
        for p in self.target.parameters():
            p.requires_grad = False

    @torch.no_grad()
    def update_target(self):
        for p, q in zip(self.online.parameters(), self.target.parameters()):
            q.mul_(self.momentum).add_(p, alpha=1 - self.momentum)

    def loss(self, a, b):
        pa, pb = self.predictor(self.online(a)), self.predictor(self.online(b))
        with torch.no_grad():
            ta, tb = self.target(a), self.target(b)
        return 2 - F.cosine_similarity(pa, tb).mean() - F.cosine_similarity(pb, ta).mean()


def linear_probe(model, train, test, steps=60):
    model.eval()
    with torch.no_grad():
        f_train, f_test = model.online[0](train.x), model.online[0](test.x)
    probe = nn.Linear(f_train.shape[1], 5)
    opt = torch.optim.Adam(probe.parameters(), lr=3e-2)
    for _ in range(steps):
        loss = F.cross_entropy(probe(f_train), train.y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    return (probe(f_test).argmax(1) == test.y).float().mean().item()


def main():
    torch.manual_seed(0)
    train, test = Windows(1000, 0), Windows(500, 1)
    model = BYOL()
    params = list(model.online.parameters()) + list(model.predictor.parameters())
    opt = torch.optim.Adam(params, lr=2e-3)
    for step in range(1, 181):
        idx = torch.randint(0, len(train.x), (96,))
        loss = model.loss(train.augment(idx), train.augment(idx))
        opt.zero_grad()
        loss.backward()
        opt.step()
        model.update_target()
        if step % 45 == 0:
            print(f"step {step} byol loss {loss.item():.3f}")
    print(f"linear probe accuracy {linear_probe(model, train, test):.3f}")


if __name__ == "__main__":
    main()
