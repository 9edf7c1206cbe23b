"""SimCLR-like pretraining of an encoder on tabular rows."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Config:
    epochs = 10
    bank_from = 4
    bs = 32
    temp = 0.2
    lr = 1e-3


class Encoder(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(40, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, dim))

    def forward(self, x):
        return self.net(x)


class Projector(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.fc = nn.Sequential(nn.Linear(dim, 32), nn.ReLU(), nn.Linear(32, 16))

    def forward(self, h):
        return F.normalize(self.fc(h), dim=1)


class FeatureBank:
    def __init__(self, encoder):
        self.encoder = encoder
        self.use_bank = False

    def features(self, x):
        if self.use_bank:
            return self.lookup(x)
        return self.encoder(x)

    @torch.no_grad()
    def lookup(self, x):
        return self.encoder(x)


def nt_xent(a, b, t):
    z = torch.cat([a, b])
    sim = z @ z.t() / t
    n = a.size(0)
    sim = sim.masked_fill(torch.eye(2 * n, dtype=torch.bool), -1e9)
    target = torch.cat([torch.arange(n) + n, torch.arange(n)])
    return F.cross_entropy(sim, target)


def main():
    torch.manual_seed(3)
    cfg = Config()
    centers = torch.randn(20, 40)
    data = centers[torch.randint(0, 20, (512,))] + 0.6 * torch.randn(512, 40)
    enc, proj = Encoder(), Projector()
    bank = FeatureBank(enc)
    opt = torch.optim.Adam(list(enc.parameters()) + list(proj.parameters()), lr=cfg.lr)
    for epoch in range(cfg.epochs):
        if epoch == cfg.bank_from:
            bank.use_bank = True
        w = enc.net[0].weight.detach().clone()
        perm = torch.randperm(len(data))
        total = 0.0
        for i in range(0, len(data), cfg.bs):
            x = data[perm[i:i + cfg.bs]]
            v1, v2 = x + 0.3 * torch.randn_like(x), x + 0.3 * torch.randn_like(x)
            loss = nt_xent(proj(bank.features(v1)), proj(bank.features(v2)), cfg.temp)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        print('epoch %d  loss %.3f  encoder delta %.5f' % (epoch, total / 16, (enc.net[0].weight - w).abs().max()))


if __name__ == '__main__':
    main()
